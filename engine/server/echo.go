package server

import (
	"headroom/engine"
	"headroom/engine/generate"
)

// echo is the prompt with which an answer begins. With logprobs it collects the log-probabilities
// of the prompt's tokens.
type echo struct {
	text   string
	prompt []int32
	tokens []generate.Token
}

// newEcho returns the echo of a prompt. Special tokens in a list of tokens have no text, as in
// answers.
func newEcho(g *generation) *echo {
	e := &echo{text: g.text, prompt: g.prompt}
	if e.text == "" {
		e.text = g.model.Engine.Tokenizer().Decode(g.prompt, true)
	}
	return e
}

// scored adds the scores of prompt tokens. After a crash of the model's process the new process
// sends all scores again; those that are known are skipped.
func (a *answer) scored(e engine.Event) error {
	if a.echo == nil {
		return nil
	}
	a.firstToken()
	for i, s := range e.Scores {
		if e.Position+i >= len(a.echo.tokens) {
			a.echo.tokens = append(a.echo.tokens, a.describe(s.Token, s.Logprob, s.Top))
		}
	}
	return nil
}

// firstToken adds the first token of the prompt. Nothing is before it, so it has no
// log-probability.
func (a *answer) firstToken() {
	if len(a.echo.tokens) == 0 {
		first := a.describe(a.echo.prompt[0], 0, nil)
		first.First = true
		a.echo.tokens = append(a.echo.tokens, first)
	}
}

// sendEcho sends the prompt, unless it has been sent or is not to be echoed.
func (a *answer) sendEcho() error {
	if a.echo == nil {
		return nil
	}
	d := generate.Delta{Content: a.echo.text}
	if a.logprobs {
		a.firstToken()
		d.Tokens = a.echo.tokens
	}
	a.echo = nil
	return a.out.delta(d)
}
