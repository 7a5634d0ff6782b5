package server

import (
	"headroom/engine"
	"headroom/engine/generate"
	"headroom/engine/tokenizer"
)

// echo is the prompt with which an answer begins. With logprobs it collects the log-probabilities
// of the prompt's tokens.
type echo struct {
	text    string
	prompt  []int32
	offsets []int // of the tokens' texts in text, in characters
	tokens  []generate.Token
}

// newEcho returns the echo of a prompt. Special tokens in a list of tokens have no text, as in
// answers.
func newEcho(g *generation) *echo {
	e := &echo{text: g.text, prompt: g.prompt}
	texts := g.model.Engine.Tokenizer()
	if e.text != "" {
		if g.Logprobs {
			e.offsets = texts.OffsetsIn(e.text, e.prompt)
		}
		return e
	}
	e.text = texts.Decode(g.prompt, true)
	if g.Logprobs {
		o := tokenizer.NewOffsets(texts.NewStream(true))
		for _, id := range g.prompt {
			e.offsets = append(e.offsets, o.Add(id))
		}
	}
	return e
}

// add adds the prompt's next token.
func (e *echo) add(token generate.Token) {
	if at := len(e.tokens); at < len(e.offsets) {
		token.Offset = e.offsets[at]
	}
	e.tokens = append(e.tokens, token)
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
			a.echo.add(a.describe(s.Token, s.Logprob, s.Top))
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
		a.echo.add(first)
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
