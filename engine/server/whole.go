package server

import (
	"net/http"
	"strings"

	"headroom/engine/openai"
)

// whole gathers an answer and sends it as one document.
type whole struct {
	w      http.ResponseWriter
	form   form
	refuse func(error)

	content, reasoning strings.Builder
	calls              []openai.ToolCall
	tokens             []openai.Token
}

func (o *whole) progress(done, total int) error { return nil }

func (o *whole) alive() error { return nil }

func (o *whole) text(p part) error {
	o.content.WriteString(p.Content)
	o.reasoning.WriteString(p.Reasoning)
	o.calls = append(o.calls, p.Calls...)
	o.tokens = append(o.tokens, p.Tokens...)
	return nil
}

func (o *whole) end(finish string, usage *openai.Usage) error {
	all := part{Content: o.content.String(), Reasoning: o.reasoning.String(), Calls: o.calls,
		Tokens: o.tokens}
	writeJSON(o.w, http.StatusOK, o.form.whole(all, finish, usage))
	return nil
}

func (o *whole) fail(err error) error {
	o.refuse(err)
	return nil
}
