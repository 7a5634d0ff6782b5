package anthropic

import (
	"encoding/base64"
	"encoding/json"
	"strings"

	"headroom/engine/generate"
	"headroom/engine/server"
)

// renderer renders an answer of /v1/messages. Its blocks follow one another: each is open until
// text of another kind comes.
type renderer struct {
	head    generate.Head
	request *Request
	prompt  Usage // before the answer

	blocks int    // that have been opened
	open   string // the type of the open block; "": none
	// blank is white space that a block of text would begin with. Clients may send no such block
	// back, so it waits for visible text.
	blank   string
	thought strings.Builder // the text of the open block of thinking, if the client omits it
	stop    *string         // the stop text that has ended the answer; nil: none
}

func newRenderer(h generate.Head, q *Request) *renderer { return &renderer{head: h, request: q} }

func (r *renderer) message(content []Block, usage Usage) Message {
	return Message{ID: r.head.ID, Type: "message", Role: "assistant", Model: r.head.Model,
		Content: content, Usage: usage}
}

func newUsage(u generate.Usage) Usage {
	return Usage{InputTokens: u.PromptTokens - u.CachedTokens, CacheReadTokens: u.CachedTokens,
		OutputTokens: u.CompletionTokens}
}

// finalUsage returns the usage of a complete answer.
func finalUsage(u generate.Usage) Usage {
	usage := newUsage(u)
	usage.OutputTokensDetails = &OutputDetails{u.ReasoningTokens}
	return usage
}

func (r *renderer) Whole(a generate.Answer) any {
	content := []Block{} // not null
	if a.Reasoning != "" && r.request.Thinking {
		content = append(content, r.thinking(a.Reasoning))
	}
	if strings.TrimSpace(a.Content) != "" {
		content = append(content, Block{Type: "text", Text: &a.Content})
	}
	for _, call := range r.allowed(a.ToolCalls) {
		content = append(content, newCallBlock(call, json.RawMessage(call.Arguments)))
	}
	if len(content) == 0 && r.thoughtOnly(a.Usage) {
		content = append(content, r.thinking(""))
	}
	if a.StopText != "" {
		r.Stopped(a.StopText)
	}
	m := r.message(content, finalUsage(a.Usage))
	m.StopReason, m.StopSequence = new(r.stopReason(a.Finish, a.Usage)), r.stop
	return m
}

// thoughtOnly reports whether an answer without blocks needs one of thinking: the model has
// thought, if only white space. Without thinking, an empty answer has no blocks, as with Anthropic.
func (r *renderer) thoughtOnly(u generate.Usage) bool {
	return r.request.Thinking && u.ReasoningTokens > 0
}

func (r *renderer) thinking(text string) Block {
	if r.request.OmitText {
		return Block{Type: "thinking", Thinking: new(""), Signature: new(sign(text))}
	}
	return Block{Type: "thinking", Thinking: &text, Signature: new(signature)}
}

// sign returns the signature of a block of thinking whose text the client omits.
func sign(text string) string {
	return omittedSignature + base64.StdEncoding.EncodeToString([]byte(text))
}

func newCallBlock(call generate.ToolCall, input json.RawMessage) Block {
	return Block{Type: "tool_use", ID: "toolu_" + call.ID, Name: call.Name, Input: input}
}

// allowed returns the calls that the client allows.
func (r *renderer) allowed(calls []generate.ToolCall) []generate.ToolCall {
	if r.request.NoCalls {
		return nil
	}
	return calls
}

// stopReason returns Anthropic's reason for the end of an answer.
func (r *renderer) stopReason(reason generate.FinishReason, u generate.Usage) string {
	switch {
	case reason == generate.FinishLength && u.CompletionTokens < r.request.maxTokens:
		return "model_context_window_exceeded"
	case reason == generate.FinishLength:
		return "max_tokens"
	case reason == generate.FinishToolCalls && !r.request.NoCalls:
		return "tool_use"
	case r.stop != nil:
		return "stop_sequence"
	}
	return "end_turn"
}

func event(name string, data any) server.Event { return server.Event{Name: name, Data: data} }

// Prompt implements server.PromptRenderer.
func (r *renderer) Prompt(u generate.Usage) { r.prompt = newUsage(u) }

func (r *renderer) Start() []server.Event {
	return []server.Event{event("message_start",
		messageStart{"message_start", r.message([]Block{}, r.prompt)})}
}

// Ping implements server.Pinger.
func (r *renderer) Ping() []server.Event {
	return []server.Event{event("ping", plain{"ping"})}
}

func (r *renderer) Delta(d generate.Delta) (events []server.Event) {
	if d.Reasoning != "" && r.request.Thinking {
		events = r.addThinking(events, d.Reasoning)
	}
	if d.Content != "" {
		events = r.addText(events, d.Content)
	}
	for _, call := range r.allowed(d.ToolCalls) {
		events = r.begin(events, newCallBlock(call, json.RawMessage("{}")))
		events = r.add(events, delta{Type: "input_json_delta", PartialJSON: &call.Arguments})
	}
	return events
}

func (r *renderer) addThinking(events []server.Event, text string) []server.Event {
	if r.open != "thinking" {
		events = r.begin(events, Block{Type: "thinking", Thinking: new(""), Signature: new("")})
	}
	if r.request.OmitText {
		r.thought.WriteString(text)
		return events
	}
	return r.add(events, delta{Type: "thinking_delta", Thinking: &text})
}

func (r *renderer) addText(events []server.Event, text string) []server.Event {
	if r.open != "text" {
		text, r.blank = r.blank+text, ""
		if strings.TrimSpace(text) == "" {
			r.blank = text
			return events
		}
		events = r.begin(events, Block{Type: "text", Text: new("")})
	}
	return r.add(events, delta{Type: "text_delta", Text: &text})
}

// begin opens a block.
func (r *renderer) begin(events []server.Event, b Block) []server.Event {
	events = r.end(events)
	r.open, r.blank = b.Type, ""
	r.blocks++
	return append(events, event("content_block_start",
		blockStart{"content_block_start", r.blocks - 1, b}))
}

// add adds to the open block.
func (r *renderer) add(events []server.Event, d delta) []server.Event {
	return append(events, event("content_block_delta",
		blockDelta{"content_block_delta", r.blocks - 1, d}))
}

// end closes the open block, if there is one.
func (r *renderer) end(events []server.Event) []server.Event {
	if r.open == "" {
		return events
	}
	if r.open == "thinking" {
		signed := signature
		if r.request.OmitText {
			signed = sign(r.thought.String())
			r.thought.Reset()
		}
		events = r.add(events, delta{Type: "signature_delta", Signature: &signed})
	}
	r.open = ""
	return append(events, event("content_block_stop",
		blockStop{"content_block_stop", r.blocks - 1}))
}

// Stopped implements server.StopRenderer.
func (r *renderer) Stopped(text string) { r.stop = &text }

func (r *renderer) Finish(reason generate.FinishReason, u generate.Usage) []server.Event {
	var events []server.Event
	if r.blocks == 0 && r.thoughtOnly(u) {
		events = r.begin(nil, Block{Type: "thinking", Thinking: new(""), Signature: new("")})
	}
	return append(r.end(events),
		event("message_delta", messageDelta{"message_delta",
			ending{r.stopReason(reason, u), r.stop}, finalUsage(u)}),
		event("message_stop", plain{"message_stop"}))
}
