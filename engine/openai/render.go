package openai

import (
	"headroom/engine/draft"
	"headroom/engine/generate"
	"headroom/engine/server"
)

// newHead returns the Head of an answer. NewChat and the other constructors set its Object.
func newHead(h generate.Head) Head {
	return Head{ID: h.ID, Created: h.Created.Unix(), Model: h.Model,
		SystemFingerprint: h.Fingerprint}
}

// streamEnd is the last event of every complete stream.
var streamEnd = server.Event{Data: server.Text("[DONE]")}

// chatRenderer renders the answers of /v1/chat/completions.
type chatRenderer struct {
	head          Head
	includeUsage  bool
	includeDrafts bool
	hideReasoning bool
	predicted     bool // the request has a prediction
	index         int  // of the current answer
}

func (c *chatRenderer) Whole(a generate.Answer) any {
	return c.WholeChoices([]generate.Answer{a}, a.Usage)
}

func (c *chatRenderer) WholeChoices(answers []generate.Answer, all generate.Usage) any {
	choices := make([]ChatChoice, len(answers))
	for i, a := range answers {
		c.index = i
		choices[i] = NewChatChoice(c.text(a.Delta), string(a.Finish))
	}
	return NewChat(c.head, newUsage(all, c.predicted), choices...)
}

func (c *chatRenderer) Start() []server.Event {
	return []server.Event{{Data: NewChatRole(c.head, c.index)}}
}

func (c *chatRenderer) Delta(d generate.Delta) []server.Event {
	if c.hideReasoning {
		if d.Reasoning = ""; d.Empty() {
			return nil
		}
	}
	return []server.Event{{Data: NewChatText(c.head, c.text(d))}}
}

func (c *chatRenderer) Next(reason generate.FinishReason) []server.Event {
	end := NewChatFinish(c.head, c.index, string(reason))
	c.index++
	return append([]server.Event{{Data: end}}, c.Start()...)
}

func (c *chatRenderer) Finish(reason generate.FinishReason, u generate.Usage) []server.Event {
	events := []server.Event{{Data: NewChatFinish(c.head, c.index, string(reason))}}
	if c.includeUsage {
		events = append(events, server.Event{Data: NewChatUsage(c.head, newUsage(u, c.predicted))})
	}
	return append(events, streamEnd)
}

// text returns the text of the current answer.
func (c *chatRenderer) text(d generate.Delta) ChatText {
	if c.hideReasoning {
		d.Reasoning = ""
	}
	var calls []ToolCall
	for _, call := range d.ToolCalls {
		calls = append(calls, NewToolCall(call.Index, "call_"+call.ID, call.Name, call.Arguments))
	}
	return ChatText{Index: c.index, Content: d.Content, Reasoning: d.Reasoning, ToolCalls: calls,
		Logprobs: NewChatLogprobs(d.Tokens), Accepted: c.includeDrafts && d.Accepted}
}

// newUsage returns the token counts of an answer, extended by Timings. Proposed tokens are counted
// if there are any. If the request has a prediction, only those that come from it are.
func newUsage(u generate.Usage, predicted bool) *Usage {
	usage := NewUsage(u.PromptTokens, u.CachedTokens, u.CompletionTokens, u.ReasoningTokens)
	counts := draft.Counts{Proposed: u.DraftTokens, Accepted: u.AcceptedTokens}
	if predicted {
		counts = u.Drafts.Prediction
	}
	if counts.Proposed > 0 || predicted {
		d := &usage.CompletionTokensDetails
		d.AcceptedPredictionTokens = new(counts.Accepted)
		d.RejectedPredictionTokens = new(counts.Proposed - counts.Accepted)
	}
	usage.Timings = &Timings{FirstTokenSeconds: u.FirstToken.Seconds(),
		DecodeTokensPerSecond: u.DecodeTokensPerSecond}
	if u.DraftTokens > 0 {
		usage.Timings.Speedup, usage.Timings.Drafts = u.Speedup, u.Drafts
	}
	return usage
}

// completionRenderer renders the answers of /v1/completions, one for each prompt. All text is
// content; there is neither reasoning nor a tool call.
type completionRenderer struct {
	head         Head
	includeUsage bool
	index        int // of the current answer
}

func (c *completionRenderer) Whole(a generate.Answer) any {
	return c.WholeChoices([]generate.Answer{a}, a.Usage)
}

func (c *completionRenderer) WholeChoices(answers []generate.Answer, all generate.Usage) any {
	choices := make([]CompletionChoice, len(answers))
	for i, a := range answers {
		choices[i] = NewCompletionChoice(i, a.Content, string(a.Finish),
			NewCompletionLogprobs(a.Tokens))
	}
	return NewCompletion(c.head, newUsage(all, false), choices...)
}

func (c *completionRenderer) Start() []server.Event { return nil }

func (c *completionRenderer) Delta(d generate.Delta) []server.Event {
	return []server.Event{{Data: NewCompletion(c.head, nil,
		NewCompletionChoice(c.index, d.Content, "", NewCompletionLogprobs(d.Tokens)))}}
}

func (c *completionRenderer) Next(reason generate.FinishReason) []server.Event {
	end := NewCompletion(c.head, nil, NewCompletionChoice(c.index, "", string(reason), nil))
	c.index++
	return []server.Event{{Data: end}}
}

func (c *completionRenderer) Finish(reason generate.FinishReason,
	u generate.Usage) []server.Event {
	events := c.Next(reason)
	if c.includeUsage {
		events = append(events, server.Event{Data: NewCompletionUsage(c.head, newUsage(u, false))})
	}
	return append(events, streamEnd)
}
