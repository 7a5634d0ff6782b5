package responses

// Compaction: a model writes a summary of a conversation, which replaces all but the messages of
// the user.

import (
	"slices"

	"headroom/engine/chat"
	"headroom/engine/generate"
	"headroom/engine/server"
)

// compactPrompt asks for the summary. It follows the conversation, whose prompt is then cached.
const compactPrompt = "Summarize our conversation, so that you can go on from the summary alone. " +
	"Write down the goal, what was done and decided, every fact, name and file that still " +
	"matters, and what is left to do. Answer with the summary only, and call no tool."

// summaryMark begins the message that a compaction becomes in a later prompt.
const summaryMark = "This is a summary of our conversation so far:\n\n"

// parseCompact parses the body of a request for a compaction.
func (d *Dialect) parseCompact(body []byte) (*server.Call, error) {
	r, err := Parse(body, d.store)
	switch {
	case err != nil:
		return nil, err
	case r.Stream:
		return nil, unsupported("stream", "a compaction cannot be streamed")
	}
	kept, err := d.userMessages(r)
	if err != nil {
		return nil, err
	}
	r.Messages = append(r.Messages, chat.Message{Role: "user", Content: compactPrompt})
	r.NoCalls = true
	return &server.Call{ID: generate.NewID("resp_"), Request: r.Request,
		Renderer: func(h generate.Head) server.Renderer { return &compactRenderer{h, kept} }}, nil
}

// userMessages returns copies of the user's messages in a conversation.
func (d *Dialect) userMessages(r *Request) (kept []any, err error) {
	items := r.input
	if r.Previous != "" {
		before, err := d.store.conversation(r.Previous)
		if err != nil {
			return nil, err
		}
		items = slices.Concat(before, items)
	}
	for _, item := range items {
		if kind, err := kindOf(item, ""); err == nil && kind.Type == "message" &&
			kind.Role == "user" {
			kept = append(kept, normalized(item).raw)
		}
	}
	return kept, nil
}

// Compaction is the response of /v1/responses/compact. Its output is the input of later requests.
type Compaction struct {
	ID        string `json:"id"`
	Object    string `json:"object"`     // "response.compaction"
	CreatedAt int64  `json:"created_at"` // unix seconds
	Output    []any  `json:"output"`     // the user's messages, and a *Summary
	Usage     *Usage `json:"usage"`
}

// Summary is an item with the summary of a conversation.
type Summary struct {
	ID               string `json:"id"`
	Type             string `json:"type"` // "compaction"
	EncryptedContent string `json:"encrypted_content"`
}

// compactRenderer renders a Compaction.
type compactRenderer struct {
	head generate.Head
	kept []any // json.RawMessage
}

func (c *compactRenderer) Whole(a generate.Answer) any {
	summary := &Summary{ID: generate.NewID("cmp_"), Type: "compaction",
		EncryptedContent: seal(a.Content)}
	return &Compaction{ID: c.head.ID, Object: "response.compaction",
		CreatedAt: c.head.Created.Unix(), Output: append(c.kept, summary), Usage: newUsage(a.Usage)}
}

// A compaction is never streamed.

func (c *compactRenderer) Start() []server.Event               { return nil }
func (c *compactRenderer) Delta(generate.Delta) []server.Event { return nil }
func (c *compactRenderer) Finish(generate.FinishReason, generate.Usage) []server.Event {
	return nil
}
