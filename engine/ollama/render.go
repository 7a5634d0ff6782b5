package ollama

import (
	"encoding/json"
	"time"

	"headroom/engine/generate"
	"headroom/engine/server"
)

// renderer renders an answer of /api/chat or /api/generate. Every line of a stream has the same
// form, and the last one also has the figures.
type renderer struct {
	model     string // its name in the answer
	generates bool   // for /api/generate
	started   time.Time
	loaded    time.Time // when the model was loaded and the prompt encoded
}

// newRenderer returns a renderer for an answer that begins now.
func newRenderer(h generate.Head, q *Request, generates bool, started time.Time) *renderer {
	return &renderer{model: q.nameOf(h.Model), generates: generates, started: started,
		loaded: h.Created}
}

// nameOf returns the name in the request, or that of the model with an ID if the request has none.
func (q *Request) nameOf(id string) string {
	if q.Model != "" {
		return q.Model
	}
	return nameOf(id)
}

// line returns a line with a part of an answer.
func (r *renderer) line(d generate.Delta) *Answer {
	a := &Answer{Model: r.model, CreatedAt: time.Now().UTC(), Logprobs: newLogprobs(d.Tokens)}
	if r.generates {
		a.Response, a.Thinking = &d.Content, d.Reasoning
	} else {
		a.Message = &Message{Role: "assistant", Content: d.Content, Thinking: d.Reasoning,
			ToolCalls: newToolCalls(d.ToolCalls)}
	}
	return a
}

// finish completes an answer.
func (r *renderer) finish(a *Answer, reason generate.FinishReason, u generate.Usage) *Answer {
	a.Done, a.DoneReason = true, "stop"
	if reason == generate.FinishLength {
		a.DoneReason = "length"
	}
	total, load := time.Since(r.started), r.loaded.Sub(r.started)
	a.Figures = &Figures{TotalDuration: total, LoadDuration: load,
		PromptEvalCount: u.PromptTokens, PromptEvalDuration: u.FirstToken,
		EvalCount: u.CompletionTokens, EvalDuration: evalDuration(u, total-load-u.FirstToken)}
	return a
}

// evalDuration returns the time in which the tokens of an answer come at the speed after the first
// one, because clients divide one by the other. rest is the time after the first token. The result
// is not 0.
func evalDuration(u generate.Usage, rest time.Duration) time.Duration {
	if u.DecodeTokensPerSecond > 0 {
		seconds := float64(u.CompletionTokens) / u.DecodeTokensPerSecond
		rest = time.Duration(seconds * float64(time.Second))
	}
	return max(rest, 1)
}

// Whole implements server.Renderer.
func (r *renderer) Whole(a generate.Answer) any {
	return r.finish(r.line(a.Delta), a.Finish, a.Usage)
}

// Start implements server.Renderer.
func (r *renderer) Start() []server.Event { return nil }

// Ping implements server.Pinger: an empty part of the answer keeps the connection alive.
func (r *renderer) Ping() []server.Event { return r.Delta(generate.Delta{}) }

// Delta implements server.Renderer.
func (r *renderer) Delta(d generate.Delta) []server.Event {
	return []server.Event{{Data: r.line(d)}}
}

// Finish implements server.Renderer.
func (r *renderer) Finish(reason generate.FinishReason, u generate.Usage) []server.Event {
	return []server.Event{{Data: r.finish(r.line(generate.Delta{}), reason, u)}}
}

// newLoaded returns the answer to a request that only loads or unloads its model.
func newLoaded(q *Request, id string, unloaded, generates bool) *Answer {
	r := &renderer{model: q.nameOf(id), generates: generates}
	a := r.line(generate.Delta{})
	a.Done, a.DoneReason = true, "load"
	if unloaded {
		a.DoneReason = "unload"
	}
	return a
}

func newToolCalls(list []generate.ToolCall) (calls []ToolCall) {
	for _, c := range list {
		calls = append(calls, ToolCall{ID: "call_" + c.ID, Function: FunctionCall{Index: c.Index,
			Name: c.Name, Arguments: json.RawMessage(c.Arguments)}})
	}
	return calls
}

func newLogprobs(tokens []generate.Token) (list []Logprob) {
	for _, t := range tokens {
		one := Logprob{TokenLogprob: newTokenLogprob(t)}
		for _, top := range t.Top {
			one.TopLogprobs = append(one.TopLogprobs, newTokenLogprob(top))
		}
		list = append(list, one)
	}
	return list
}

// newTokenLogprob returns a token. Its text has U+FFFD for each byte of an incomplete character.
func newTokenLogprob(t generate.Token) TokenLogprob {
	l := TokenLogprob{Token: string([]rune(string(t.Bytes))), Logprob: leastLogprob}
	if t.Logprob >= leastLogprob { // false for NaN and -Inf, which JSON lacks
		l.Logprob = t.Logprob
	}
	for _, b := range t.Bytes {
		l.Bytes = append(l.Bytes, int(b))
	}
	return l
}

// leastLogprob stands for smaller log-probabilities, as in OpenAI's API.
const leastLogprob = -9999
