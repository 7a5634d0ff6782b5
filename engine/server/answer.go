package server

// The middle of every generation: engine events on one side, an output on the other. It is the same
// for chat and completions, streamed or whole, and it makes sure that work stops when nobody reads
// any more.

import (
	"context"
	"errors"
	"time"

	"headroom/engine"
	"headroom/engine/chat"
	"headroom/engine/openai"
	"headroom/engine/problem"
	"headroom/engine/tokenizer"
)

// output is where an answer goes: a stream (stream.go) or a document (whole.go). An error means
// that the client is gone.
type output interface {
	// progress: done of total prompt tokens have been read.
	progress(done, total int) error
	// alive: the model is at work and had nothing to say for a while.
	alive() error
	// text adds to the answer.
	text(part) error
	// end completes the answer.
	end(finish string, usage *openai.Usage) error
	// fail ends the answer with an error, which may come before anything else.
	fail(err error) error
}

// part is what a step adds to the answer. Tokens are those of Content, when the request asks for
// probabilities.
type part struct {
	Content, Reasoning string
	Calls              []openai.ToolCall
	Tokens             []openai.Token
}

func (p *part) empty() bool { return p.Content == "" && p.Reasoning == "" && len(p.Calls) == 0 }

// answer reads the events of one generation, tells thought, speech and tool calls apart, and hands
// them to the output.
type answer struct {
	stream    *engine.Stream
	out       output
	split     *chat.Splitter // nil: all text is content
	tokenizer *tokenizer.Tokenizer
	logprobs  bool
	keepAlive time.Duration
	record    *record

	usage           engine.Usage
	reasoningTokens int
	generating      bool      // the prompt has been read
	calls           int       // tool calls so far
	heard           time.Time // when the output last got something
	// of text that is held back: half a character, the start of a stop text, a call
	pending []openai.Token
}

// run goes through the events until the end. When ctx ends (the client is gone, or the server shuts
// down) it cancels the work at once.
func (a *answer) run(ctx context.Context) {
	for {
		e, err := a.next(ctx)
		if err == nil {
			a.usage = e.Usage
			a.record.prompt = e.Usage
			switch e.Type {
			case engine.Prefill:
				err = a.out.progress(e.Usage.PromptDoneTokens, e.Usage.PromptTokens)
			case engine.Token:
				err = a.token(e)
			case engine.Done:
				a.done(e)
				return
			}
		}
		if err != nil {
			a.abandon(ctx, err)
			return
		}
	}
}

// next waits for an event, and in between tells the client that its request is alive.
func (a *answer) next(ctx context.Context) (engine.Event, error) {
	for {
		wait, stop := context.WithTimeout(ctx, a.keepAlive)
		e, err := a.stream.Next(wait)
		stop()
		if err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return e, err
		}
		if a.generating {
			err = a.out.alive()
		} else {
			err = a.out.progress(a.usage.PromptDoneTokens, a.usage.PromptTokens)
		}
		if err != nil {
			return engine.Event{}, err
		}
	}
}

func (a *answer) token(e engine.Event) error {
	a.generating = true
	thinking := a.split != nil && a.split.InReasoning()
	if thinking {
		a.reasoningTokens++
	}
	if a.logprobs && !a.tokenizer.IsSpecial(e.Token) {
		a.pending = append(a.pending, a.probability(e))
	}
	p := a.divide(e.Text)
	switch {
	case p.Content != "":
		p.Tokens, a.pending = a.pending, nil
	case thinking, len(p.Calls) > 0, e.Text != "" && !a.holding():
		a.pending = nil // of a thought, a call, or the line breaks around them
	}
	if p.empty() {
		return a.quiet()
	}
	a.heard = time.Now()
	return a.out.text(p)
}

// quiet keeps the connection alive while the tokens of a long tool call come and nothing can be
// shown.
func (a *answer) quiet() error {
	if a.heard.IsZero() {
		a.heard = time.Now()
	}
	if time.Since(a.heard) < a.keepAlive {
		return nil
	}
	a.heard = time.Now()
	return a.out.alive()
}

func (a *answer) holding() bool { return a.split != nil && a.split.Holding() }

// divide splits text that has become certain.
func (a *answer) divide(text string) part {
	if a.split == nil {
		return part{Content: text}
	}
	return a.join(a.split.Add(text))
}

func (a *answer) join(pieces []chat.Piece) (p part) {
	for _, piece := range pieces {
		switch piece.Kind {
		case chat.Reasoning:
			p.Reasoning += piece.Text
		case chat.Call:
			// the newest token may go on after the call
			a.pending = a.pending[max(0, len(a.pending)-1):]
			p.Calls = append(p.Calls,
				openai.NewToolCall(a.calls, newID("call_"), piece.Call.Name, piece.Call.Arguments))
			a.calls++
		default:
			p.Content += piece.Text
		}
	}
	return p
}

func (a *answer) probability(e engine.Event) openai.Token {
	token := openai.Token{Bytes: a.tokenizer.TokenBytes(e.Token), Logprob: e.Logprob}
	for _, candidate := range e.Top {
		token.Top = append(token.Top,
			openai.Token{Bytes: a.tokenizer.TokenBytes(candidate.Token),
				Logprob: candidate.Logprob})
	}
	return token
}

// done hands out what was held back, and the end.
func (a *answer) done(e engine.Event) {
	a.record.timing, a.record.finish = e.Timing, string(e.Finish)
	p := a.divide(e.Text)
	if a.split != nil {
		rest := a.join(a.split.Close())
		p.Content += rest.Content
		p.Reasoning += rest.Reasoning
	}
	if p.Content != "" {
		p.Tokens = a.pending
	}
	if !p.empty() {
		if a.out.text(p) != nil {
			return
		}
	}
	if e.Finish == engine.FinishStop && a.calls > 0 {
		a.record.finish = finishCalls
	}
	switch e.Finish {
	case engine.FinishError:
		a.fail(e.Err)
	case engine.FinishCancelled:
		a.fail(problem.New(problem.Cancelled, "The request was cancelled", "",
			"Somebody stopped it, or the model was unloaded."))
	default:
		_ = a.out.end(a.record.finish, a.counts())
	}
}

// finishCalls is OpenAI's word for an answer that ended by itself and calls functions. One that was
// cut off says so instead.
const finishCalls = "tool_calls"

func (a *answer) counts() *openai.Usage {
	u := openai.NewUsage(a.usage.PromptTokens, a.usage.CachedTokens, a.usage.CompletionTokens,
		a.reasoningTokens)
	u.Timings = &openai.Timings{FirstTokenSeconds: a.record.timing.FirstToken.Seconds(),
		DecodeTokensPerSecond: a.record.timing.DecodeTokensPerSecond()}
	return u
}

func (a *answer) fail(err error) {
	a.record.fail(err)
	_ = a.out.fail(err)
}

// errShutdown is the cause with which Serve ends the requests that outlast its patience.
var errShutdown = problem.New(problem.NotRunning, "Headroom is shutting down", "",
	"Start it again.")

// abandon stops the work and, if somebody is still there, says why.
func (a *answer) abandon(ctx context.Context, err error) {
	a.stream.Cancel()
	a.record.finish = string(engine.FinishCancelled)
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errShutdown):
		a.fail(errShutdown)
	case cause == nil && ctx.Err() == nil && !isWriteError(err):
		a.fail(err) // the stream broke: not the client's doing
	default:
		a.record.fail(errors.New("the client went away"))
	}
}

// writeError marks an error of writing to the client.
type writeError struct{ error }

func isWriteError(err error) bool {
	var w writeError
	return errors.As(err, &w)
}
