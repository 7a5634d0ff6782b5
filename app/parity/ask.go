package parity

import (
	"cmp"
	"context"
	"sync"
	"time"

	"headroom/engine"
)

// answer is what an engine has answered.
type answer struct {
	tokens   []int32
	logprobs []float32
	usage    engine.Usage
	timing   engine.Timing

	first, last time.Time // when the first and the last token came
}

// speeds are the speeds of a way, in tokens per second; 0: unknown. Reading takes the time to the
// first token, and what was cached counts as read.
type speeds struct{ read, decode float64 }

// uncached has the fields of a request that resumes nothing and leaves nothing for others.
var uncached = engine.Request{NoCache: true, Private: true}

// ask answers a prompt greedily, with log-probabilities. how has the other fields of the request.
func (c *check) ask(e *engine.Engine, prompt []int32, how engine.Request) (a answer, err error) {
	how.Prompt, how.MaxTokens = prompt, c.Tokens
	s, err := e.Submit(how)
	if err != nil {
		return a, err
	}
	defer s.Cancel()
	for {
		event, err := s.Next(c.ctx)
		switch {
		case err != nil:
			return a, err
		case event.Type == engine.Token:
			if a.last = time.Now(); len(a.tokens) == 0 {
				a.first = a.last
			}
			a.tokens = append(a.tokens, event.Token)
			a.logprobs = append(a.logprobs, event.Logprob)
		case event.Type == engine.Done:
			a.usage, a.timing = event.Usage, event.Timing
			if event.Finish == engine.FinishCancelled {
				return a, cmp.Or(event.Err, context.Canceled)
			}
			return a, event.Err
		}
	}
}

// alone answers one prompt after the other.
func (c *check) alone(e *engine.Engine, how engine.Request) (answers []answer, err error) {
	for _, p := range c.Prompts {
		a, err := c.ask(e, p, how)
		if err != nil {
			return nil, err
		}
		answers = append(answers, a)
	}
	return answers, nil
}

// together answers all prompts at once. The speeds are those of all of them together.
func (c *check) together(e *engine.Engine, how engine.Request) ([]answer, speeds, error) {
	answers, failures := make([]answer, len(c.Prompts)), make([]error, len(c.Prompts))
	began := time.Now()
	var running sync.WaitGroup
	for i, p := range c.Prompts {
		running.Go(func() { answers[i], failures[i] = c.ask(e, p, how) })
	}
	running.Wait()
	if err := cmp.Or(failures...); err != nil {
		return nil, speeds{}, err
	}
	first, lastFirst, last := answers[0].first, answers[0].first, answers[0].last
	read, decoded := 0, 0
	for _, a := range answers {
		if a.first.Before(first) {
			first = a.first
		}
		if a.first.After(lastFirst) {
			lastFirst = a.first
		}
		if a.last.After(last) {
			last = a.last
		}
		read += a.usage.PromptTokens
		decoded += a.timing.DecodeSteps
	}
	return answers, speeds{rate(read, lastFirst.Sub(began)), rate(decoded, last.Sub(first))}, nil
}

// speedsAlone returns the speeds of answers that were given one after the other.
func speedsAlone(answers []answer) speeds {
	var prefill, decode time.Duration
	read, decoded := 0, 0
	for _, a := range answers {
		prefill, decode = prefill+a.timing.FirstToken, decode+a.timing.Decode
		read += a.usage.PromptTokens
		decoded += a.timing.DecodeSteps
	}
	return speeds{rate(read, prefill), rate(decoded, decode)}
}

func rate(tokens int, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return float64(tokens) / d.Seconds()
}
