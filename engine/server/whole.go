package server

import (
	"net/http"
	"strings"

	"headroom/engine/generate"
)

// whole collects an answer and sends it as one document at the end.
type whole struct {
	w        http.ResponseWriter
	renderer Renderer
	refuse   func(error)

	content, reasoning strings.Builder
	calls              []generate.ToolCall
	tokens             []generate.Token
}

func (o *whole) progress(done, total int) error { return nil }

func (o *whole) keepAlive() error { return nil }

func (o *whole) delta(d generate.Delta) error {
	o.content.WriteString(d.Content)
	o.reasoning.WriteString(d.Reasoning)
	o.calls = append(o.calls, d.ToolCalls...)
	o.tokens = append(o.tokens, d.Tokens...)
	return nil
}

func (o *whole) finish(reason generate.FinishReason, usage generate.Usage) error {
	all := generate.Delta{Content: o.content.String(), Reasoning: o.reasoning.String(),
		ToolCalls: o.calls, Tokens: o.tokens}
	writeJSON(o.w, http.StatusOK,
		o.renderer.Whole(generate.Answer{Delta: all, Finish: reason, Usage: usage}))
	return nil
}

func (o *whole) fail(err error) error {
	o.refuse(err)
	return nil
}
