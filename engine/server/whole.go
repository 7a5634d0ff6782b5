package server

import (
	"context"
	"net/http"
	"strings"

	"headroom/engine/generate"
)

// whole collects the answers to a request and sends them as one document at the end.
type whole struct {
	w        http.ResponseWriter
	ctx      context.Context // of the request
	renderer Renderer
	refuse   func(error)

	before []generate.Answer // the answers before the current one

	content, reasoning strings.Builder
	calls              []generate.ToolCall
	tokens             []generate.Token
	logprobs           []float32
}

func (o *whole) progress(done, total int) error { return nil }

func (o *whole) keepAlive() error { return nil }

func (o *whole) delta(d generate.Delta) error {
	o.content.WriteString(d.Content)
	o.reasoning.WriteString(d.Reasoning)
	o.calls = append(o.calls, d.ToolCalls...)
	o.tokens = append(o.tokens, d.Tokens...)
	if d.Logprobs != nil { // another process of the model may send them again
		o.logprobs = d.Logprobs
	}
	return nil
}

// answer returns the current answer.
func (o *whole) answer(reason generate.FinishReason, stop string,
	usage generate.Usage) generate.Answer {
	return generate.Answer{Delta: generate.Delta{Content: o.content.String(),
		Reasoning: o.reasoning.String(), ToolCalls: o.calls, Tokens: o.tokens,
		Logprobs: o.logprobs}, Finish: reason, StopText: stop, Usage: usage}
}

func (o *whole) next(reason generate.FinishReason, stop string) error {
	*o = whole{w: o.w, ctx: o.ctx, renderer: o.renderer, refuse: o.refuse,
		before: append(o.before, o.answer(reason, stop, generate.Usage{}))}
	return nil
}

func (o *whole) finish(reason generate.FinishReason, stop string, usage generate.Usage) error {
	last := o.answer(reason, stop, usage)
	var document any
	if len(o.before) == 0 {
		document = o.renderer.Whole(last)
	} else {
		document = o.renderer.(ChoicesRenderer).WholeChoices(append(o.before, last), usage)
	}
	d, err := newDocument(o.ctx, document)
	if err != nil {
		o.refuse(ended(o.ctx, err))
		return nil
	}
	d.write(o.w)
	return nil
}

func (o *whole) fail(err error) error {
	o.refuse(err)
	return nil
}
