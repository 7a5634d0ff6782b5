package server

// An answer reads the engine's events and writes to an output. It works in the same way for all
// dialects, for streams and for whole documents. When the client disconnects, it cancels the
// engine's request.

import (
	"context"
	"errors"
	"fmt"
	"time"

	"headroom/engine"
	"headroom/engine/chat"
	"headroom/engine/generate"
	"headroom/engine/problem"
	"headroom/engine/sample"
	"headroom/engine/tokenizer"
)

// output receives an answer. An error from its methods means that the client has disconnected.
type output interface {
	// progress reports that done of total prompt tokens are in the cache.
	progress(done, total int) error
	// keepAlive reports that the model is working but has produced no text for a while.
	keepAlive() error
	// delta appends to the answer.
	delta(generate.Delta) error
	// finish completes the answer. stop is the stop text that ended it, if the server found one.
	finish(reason generate.FinishReason, stop string, usage generate.Usage) error
	// fail ends the answer with an error, possibly before any other call.
	fail(err error) error
}

// response is the output of all answers of a request. It sends them as a stream (stream.go) or as
// one document (whole.go).
type response interface {
	output
	// next completes an answer and begins the next one.
	next(reason generate.FinishReason, stop string) error
}

// answer reads the events of one generation. It splits the text into reasoning, content and tool
// calls, and passes them to the output.
type answer struct {
	stream *engine.Stream
	out    output
	split  *chat.Splitter // nil: all text is content
	// stop looks for stop texts in the content of a chat; nil: the engine does, in all text.
	stop      *chat.StopMatcher
	oneCall   bool // the answer ends with its first tool call
	tokenizer *tokenizer.Tokenizer
	logprobs  bool
	echo      *echo                     // nil: the answer does not begin with the prompt
	echoed    int                       // characters of the prompt with which the answer begins
	offsets   func() *tokenizer.Offsets // of its tokens after that; nil: nobody needs them
	keepAlive time.Duration
	record    *record

	ahead int // events that waited for the turn of the answer, and not for a slow client

	// When run began, and when it read the first token and the latest one.
	begun, first, latest time.Time

	usage           engine.Usage
	counted         bool // usage is that of the whole request
	accepted        bool // the latest token was a draft
	reasoningTokens int
	generating      bool      // the first token has arrived
	calls           int       // tool calls so far
	ended           bool      // a stop text or oneCall has ended the answer before the engine did
	lastOutput      time.Time // when the output was last called
	// pending holds the tokens since the last delta. Their text is held back, for example an
	// incomplete character, the start of a stop text or a tool call, or they have none.
	pending []generate.Token
}

// run reads the events until the end. When ctx ends, because the client disconnects or the server
// shuts down, run cancels the engine's request immediately. An error means that the model's process
// ended before the first token; the answer is then still open.
func (a *answer) run(ctx context.Context) error {
	a.begun = time.Now()
	for {
		e, err := a.next(ctx)
		switch {
		case err == nil && a.ended:
			if e.Type == engine.Done { // what was generated meanwhile does not count
				a.counted = true
				a.record.timing, a.record.noDrafts = e.Timing, e.NoDrafts
				a.complete(engine.FinishStop)
				return nil
			}
			continue
		case err == nil:
			a.accepted = e.Usage.AcceptedTokens > a.usage.AcceptedTokens
			a.usage = e.Usage
			a.record.prompt = e.Usage
			switch e.Type {
			case engine.Prefill:
				err = a.out.progress(e.Usage.PromptDoneTokens, e.Usage.PromptTokens)
			case engine.Scored:
				if e.Candidates != nil {
					err = a.out.delta(generate.Delta{Logprobs: e.Candidates})
				} else {
					err = a.scored(e)
				}
			case engine.Token:
				if err = a.sendEcho(); err == nil {
					err = a.token(e)
				}
			case engine.Done:
				if e.Finish == engine.FinishError && !a.generating && lostProcess(e.Err) {
					return e.Err
				}
				a.counted = true
				a.done(e)
				return nil
			}
		}
		if err == nil && a.stream.Unread() > maxUnread+a.ahead {
			err = errSlowReader
		}
		if err != nil {
			a.abandon(ctx, err)
			return nil
		}
	}
}

// errSlowReader is the error of a request whose client reads much more slowly than the model
// writes.
var errSlowReader = problem.New(problem.Timeout, "The request was cancelled",
	"the client reads the answer much more slowly than the model writes it", "Send it again.")

// next waits for the next event. Meanwhile it keeps the client's connection alive.
func (a *answer) next(ctx context.Context) (engine.Event, error) {
	for {
		wait, stop := context.WithTimeout(ctx, a.keepAlive)
		e, err := a.stream.Next(wait)
		stop()
		if err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return e, err
		}
		if a.generating {
			err = a.out.keepAlive()
		} else {
			err = a.out.progress(a.usage.PromptDoneTokens, a.usage.PromptTokens)
		}
		if err != nil {
			return engine.Event{}, err
		}
	}
}

func (a *answer) token(e engine.Event) error {
	a.latest = time.Now()
	if !a.generating {
		a.first = a.latest
	}
	a.generating = true
	reasoning := a.split != nil && a.split.InReasoning()
	if reasoning {
		a.reasoningTokens++
	}
	if a.logprobs {
		a.pending = append(a.pending, a.logprob(e))
	}
	d := a.add(e.Text)
	if a.ended {
		a.stream.Stop()
	}
	if d.Empty() && (!a.ended || len(a.pending) == 0) {
		return a.silence()
	}
	d.Tokens, a.pending, d.Accepted = a.pending, nil, a.accepted
	a.lastOutput = time.Now()
	return a.out.delta(d)
}

// silence is called for a token that adds no output, for example a token of a long tool call. It
// keeps the connection alive.
func (a *answer) silence() error {
	if a.lastOutput.IsZero() {
		a.lastOutput = time.Now()
	}
	if time.Since(a.lastOutput) < a.keepAlive {
		return nil
	}
	a.lastOutput = time.Now()
	return a.out.keepAlive()
}

// add splits new text into reasoning, content and tool calls.
func (a *answer) add(text string) generate.Delta {
	if a.split == nil {
		return generate.Delta{Content: text}
	}
	return a.join(a.split.Add(text))
}

// join joins pieces up to the end of the answer. Stop texts are looked for in the content alone,
// and none reaches across a tool call or reasoning.
func (a *answer) join(pieces []chat.Piece) (d generate.Delta) {
	for _, piece := range pieces {
		if a.ended {
			break
		}
		switch piece.Kind {
		case chat.Reasoning:
			d.Content += a.release()
			d.Reasoning += piece.Text
		case chat.Broken:
			// Nothing: the client cannot use it.
		case chat.Call:
			d.Content += a.release()
			d.ToolCalls = append(d.ToolCalls, generate.ToolCall{Index: a.calls,
				ID: generate.NewID(""), Name: piece.Call.Name, Arguments: piece.Call.Arguments})
			a.calls++
			a.ended = a.oneCall
		default:
			text := piece.Text
			if a.stop != nil {
				text, a.ended = a.stop.Add(text)
			}
			d.Content += text
		}
	}
	return d
}

// release returns the content that was held back as the possible beginning of a stop text.
func (a *answer) release() string {
	if a.stop == nil || a.ended {
		return ""
	}
	return a.stop.Close()
}

// logprob returns the token of an event with its log-probability and its candidates.
func (a *answer) logprob(e engine.Event) generate.Token {
	token := a.describe(e.Token, e.Logprob, e.Top)
	if a.offsets != nil {
		token.Offset = a.echoed + a.offsets().Add(e.Token)
	}
	return token
}

func (a *answer) describe(id int32, logprob float32, top []sample.TokenLogprob) generate.Token {
	token := generate.Token{Bytes: a.tokenizer.TokenBytes(id), Logprob: logprob}
	for _, candidate := range top {
		token.Top = append(token.Top,
			generate.Token{Bytes: a.tokenizer.TokenBytes(candidate.Token),
				Logprob: candidate.Logprob})
	}
	return token
}

// done sends the text that was held back and the tokens without text, and completes the answer.
func (a *answer) done(e engine.Event) {
	a.record.timing, a.record.finish = e.Timing, string(e.Finish)
	a.record.noDrafts = e.NoDrafts
	if e.Finish != engine.FinishError && e.Finish != engine.FinishCancelled && a.sendEcho() != nil {
		return
	}
	d := a.add(e.Text)
	if a.split != nil {
		rest := a.join(a.split.Close(e.Finish != engine.FinishStop))
		d.Content += rest.Content + a.release()
		d.Reasoning += rest.Reasoning
		d.ToolCalls = append(d.ToolCalls, rest.ToolCalls...)
	}
	d.Tokens = a.pending
	if !d.Empty() && a.out.delta(d) != nil {
		return
	}
	switch e.Finish {
	case engine.FinishError:
		a.fail(e.Err)
	case engine.FinishCancelled:
		a.fail(problem.New(problem.Cancelled, "The request was cancelled", "",
			"Somebody stopped it, or the model was unloaded."))
	default:
		a.complete(e.Finish)
	}
}

// complete completes the answer, which has been sent.
func (a *answer) complete(finish engine.FinishReason) {
	stop := ""
	if a.ended {
		finish = engine.FinishStop
		if a.stop != nil {
			stop = a.stop.Match()
		}
	}
	a.record.finish = string(finish)
	if a.calls > 0 && (finish == engine.FinishStop ||
		finish == engine.FinishLength && a.split.EndsWithCall()) {
		a.record.finish = string(generate.FinishToolCalls)
	}
	_ = a.out.finish(generate.FinishReason(a.record.finish), stop, a.totals())
}

func (a *answer) totals() generate.Usage {
	timing := a.record.timing
	return generate.Usage{PromptTokens: a.usage.PromptTokens, CachedTokens: a.usage.CachedTokens,
		CompletionTokens: a.usage.CompletionTokens, ReasoningTokens: a.reasoningTokens,
		DraftTokens: a.usage.DraftTokens, AcceptedTokens: a.usage.AcceptedTokens,
		Drafts:                a.usage.Drafts(),
		FirstToken:            timing.FirstToken,
		DecodeTokensPerSecond: timing.DecodeTokensPerSecond(), Speedup: timing.Speedup()}
}

func (a *answer) fail(err error) {
	a.record.fail(err)
	_ = a.out.fail(err)
}

// errShutdown is the cancellation cause of requests that are still running when Serve's drain time
// is over.
var errShutdown = problem.New(problem.NotRunning, "Headroom is shutting down", "",
	"Start it again.")

// errDisconnected is the error of a request whose client has disconnected. The client sees it only
// if it has closed just its own direction of the connection.
var errDisconnected = problem.New(problem.Cancelled, "The request was cancelled",
	"the client closed its side of the connection before the answer was complete",
	"Keep the connection open until the answer has arrived.")

// errCancelled is the error of a request that was cancelled by another one.
var errCancelled = problem.New(problem.Cancelled, "The request was cancelled",
	"another request asked for it", "")

// disconnection returns the error of a request whose context has ended.
func disconnection(ctx context.Context) error {
	if p, ok := errors.AsType[*problem.Problem](context.Cause(ctx)); ok {
		return p // errShutdown, errCancelled, or the key was removed
	}
	return errDisconnected
}

// measured returns the timing of an answer that does not wait for the engine's own. It is zero if
// tokens waited for their turn, because then they were read faster than they were generated.
func (a *answer) measured() engine.Timing {
	if !a.generating || a.ahead > 0 {
		return engine.Timing{}
	}
	return engine.Timing{FirstToken: a.first.Sub(a.begun), Decode: a.latest.Sub(a.first),
		DecodeSteps: max(a.usage.CompletionTokens-1, 0)}
}

// cancelWait is how long the figures of cancelled requests are waited for. They come after the step
// that is running.
const cancelWait = 2 * time.Second

// count takes the figures of a cancelled request: what it has generated counts, although nobody
// reads it. Without the figures when ctx ends, those that are known stay.
func (a *answer) count(ctx context.Context) {
	for {
		e, err := a.stream.Next(ctx)
		if err != nil {
			return
		}
		a.usage, a.record.prompt = e.Usage, e.Usage
		if e.Type == engine.Done {
			a.record.timing, a.record.noDrafts = e.Timing, e.NoDrafts
			return
		}
	}
}

// abandon cancels the engine's request and sends the error. A client that has disconnected does not
// get it.
func (a *answer) abandon(ctx context.Context, err error) {
	if a.stream != nil { // nil: it was never accepted
		a.stream.Cancel()
	}
	a.record.finish = string(engine.FinishCancelled)
	a.record.timing = a.measured()
	switch {
	case isWriteError(err):
		a.record.fail(fmt.Errorf("the client does not read the answer: %w", err))
	case ctx.Err() != nil:
		a.fail(disconnection(ctx))
	default:
		a.fail(err) // reading the engine's events failed
	}
}
