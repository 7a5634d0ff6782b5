package engine

// The hot path: schedule, run, postprocess. One goroutine owns the device, the scheduler and every running request; others reach
// it through the inbox. Nothing here waits for a client, a disk or the network.

import (
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"time"

	"headroom/engine/batch"
	"headroom/engine/chat"
	"headroom/engine/problem"
	"headroom/engine/reread"
	"headroom/engine/sample"
	"headroom/engine/sched"
	"headroom/engine/tokenizer"
	"headroom/kernels"
)

// request is a Request at work.
type request struct {
	Request
	seq     sched.Sequence
	sampler *sample.Sampler
	text    *tokenizer.Stream
	stop    *chat.StopMatcher
	stopped bool // by a stop text
	stream  *Stream
	usage   Usage
	match   reread.Match // what was known of the prompt when it came

	title                  string // of the conversation, for lists
	lookups                int    // in the block store
	blockHits, blockWrites int    // blocks read back from it, and handed to it
	storedFrom, storedTo   int    // tokens that could be resumed before and after reading back

	submitted, started, first, last time.Time
	longestGap                      time.Duration
}

// loop runs until the engine is closed.
func (e *Engine) loop() {
	defer close(e.ended)
	for {
		open := e.takeInbox()
		work := e.sched.Next()
		for _, p := range e.sched.Promotions() {
			e.fetch(p)
		}
		e.starving(time.Now())
		e.publish() // before the pass, which may be long: who has come and who was cancelled
		switch {
		case len(work) > 0:
			began := time.Now()
			logits, err := e.step(work)
			e.paced(work, time.Since(began))
			e.postprocess(work, logits, err)
			e.publish()
		case open || e.blocks.working > 0:
			<-e.wake
		default:
			return
		}
	}
}

// takeInbox starts what was submitted, does what others ask for and drops what was cancelled. It reports false once the engine is
// closing, when every request has been ended.
func (e *Engine) takeInbox() bool {
	e.mu.Lock()
	fresh, cancelled, mail, closing := e.inbox, e.cancelled, e.mail, e.closing
	e.inbox, e.cancelled, e.mail = nil, nil, nil
	e.mu.Unlock()
	for _, f := range mail {
		f()
	}
	for _, r := range fresh {
		e.requests = append(e.requests, r)
		e.sched.Add(&r.seq)
		e.lookUp(r)
	}
	for _, r := range cancelled {
		e.finish(r, FinishCancelled, nil)
	}
	if closing {
		e.blocks.cancel() // nobody waits for what is being read back
	}
	for closing && len(e.requests) > 0 {
		e.finish(e.requests[0], FinishCancelled, nil)
	}
	e.saveEnds(time.Now(), fresh, closing)
	return !closing
}

// recovered, deferred, turns a panic into *err.
func recovered(err *error) {
	if r := recover(); r != nil {
		slog.Error("engine step panicked", "panic", r, "stack", string(debug.Stack()))
		*err = problem.New(problem.Internal, "The engine failed on this request", fmt.Sprint(r), "Please report it with the log.")
	}
}

// step takes work through the model. A panic below, in a kernel or an architecture, is an error of this step alone.
func (e *Engine) step(work []sched.Work) (logits []float32, err error) {
	defer recovered(&err)
	e.tokens, e.spans, e.logitRows = e.tokens[:0], e.spans[:0], e.logitRows[:0]
	now := time.Now()
	for _, w := range work {
		r := w.Seq.Owner.(*request)
		if r.started.IsZero() {
			r.started = now
			r.usage.CachedTokens = w.Seq.Cached
			r.usage.StoredTokens = max(0, min(w.Seq.Cached, r.storedTo)-r.storedFrom)
			r.usage.PromptDoneTokens = w.Seq.Cached
			e.totals.CachedTokens += int64(w.Seq.Cached)
			r.stream.put(Event{Type: Prefill, Usage: r.usage}) // at once: clients see that it has begun, and how much was cached
		}
		e.restore(w.Restore)
		e.spans = append(e.spans, kernels.Span{
			Row: len(e.tokens), Rows: w.To - w.From, Pos: w.From, Pages: w.Seq.Pages, Slot: w.Seq.Slot,
			Prefill: max(0, min(w.To, r.usage.PromptTokens)-w.From), // what it generated before it was preempted is no prompt
		})
		e.tokens = append(e.tokens, w.Seq.Tokens[w.From:w.To]...)
		if w.To == len(w.Seq.Tokens) {
			e.logitRows = append(e.logitRows, int32(len(e.tokens)-1))
		}
	}
	return e.runner.Step(e.tokens, e.spans, e.logitRows, e.cut(work)...)
}

// cut cuts the step's spans where a state is to be kept, for the layers that have one; nil when there is nothing to keep.
func (e *Engine) cut(work []sched.Work) (rounds []batch.Round) {
	if !slices.ContainsFunc(work, func(w sched.Work) bool { return len(w.Keeps) > 0 }) {
		return nil
	}
	round := func(n int) *batch.Round {
		if n == len(rounds) {
			rounds = append(rounds, batch.Round{})
		}
		return &rounds[n]
	}
	for i, w := range work {
		rest := e.spans[i]
		for n, k := range w.Keeps {
			var piece kernels.Span
			piece, rest = rest.Before(k.Position - rest.Pos)
			r := round(n)
			r.Spans = append(r.Spans, piece)
			r.Keeps = append(r.Keeps, batch.Keep{From: w.Seq.Slot, To: k.Slot})
		}
		if rest.Rows > 0 {
			r := round(len(w.Keeps))
			r.Spans = append(r.Spans, rest)
		}
	}
	return rounds
}

// restore makes a known prefix the beginning of a sequence: its full pages are shared, the last one and the state are copied.
func (e *Engine) restore(r *sched.Restore) {
	if r == nil {
		return
	}
	if r.FromPage >= 0 {
		e.runner.CopyPage(r.FromPage, r.ToPage)
	}
	if r.FromSlot >= 0 {
		e.runner.CopyState(r.FromSlot, r.ToSlot)
	}
}

// keep copies the state in slot from, for later sequences to go on from. It takes what sched.Remove answers.
func (e *Engine) keep(from int32, k *sched.Keep) {
	if k != nil {
		e.runner.CopyState(from, k.Slot)
	}
}

// postprocess advances every sequence of the step: prompts report how far they have been read, the others get their next token.
func (e *Engine) postprocess(work []sched.Work, logits []float32, err error) {
	now := time.Now()
	vocab := e.runner.VocabSize()
	for _, w := range work {
		r := w.Seq.Owner.(*request)
		if err != nil {
			e.sched.Abandon(w)
			e.finish(r, FinishError, err)
			continue
		}
		e.sched.Advance(w)
		if done := min(w.To, r.usage.PromptTokens); done > r.usage.PromptDoneTokens {
			e.speed.add(now, done-r.usage.PromptDoneTokens, 0)
			e.totals.PromptTokens += int64(done - r.usage.PromptDoneTokens)
			r.usage.PromptDoneTokens = done
			r.stream.put(Event{Type: Prefill, Usage: r.usage})
		}
		if w.To == len(w.Seq.Tokens) {
			row := logits[:vocab]
			logits = logits[vocab:]
			e.next(r, row, now)
		}
	}
}

// next samples a request's next token from its logits and hands it out. A panic below ends this request alone.
func (e *Engine) next(r *request, logits []float32, now time.Time) {
	var failed error
	defer func() {
		if failed != nil {
			e.finish(r, FinishError, failed)
		}
	}()
	defer recovered(&failed)
	s, err := r.sampler.Sample(logits)
	if err != nil {
		e.finish(r, FinishError, problem.Wrap(problem.Internal, err, "The model gave no usable answer", "The model's files may be damaged."))
		return
	}
	if r.usage.CompletionTokens == 0 {
		r.first = now
	} else {
		e.speed.add(now, 0, 1)
		r.longestGap = max(r.longestGap, now.Sub(r.last))
	}
	r.last = now
	r.usage.CompletionTokens++
	e.totals.GeneratedTokens++
	r.sampler.Observe(s.Token)
	r.seq.Tokens = append(r.seq.Tokens, s.Token)

	event := Event{Type: Token, Token: s.Token, Logprob: s.Logprob, Top: slices.Clone(s.Top), Usage: r.usage}
	if e.isEnd(s.Token) && !r.IgnoreEOS {
		r.stream.put(event)
		e.finish(r, FinishStop, nil)
		return
	}
	event.Text, r.stopped = r.stop.Add(r.text.Add(s.Token))
	r.stream.put(event)
	switch {
	case r.stopped:
		e.finish(r, FinishStop, nil)
	case r.usage.CompletionTokens >= r.MaxTokens:
		e.finish(r, FinishLength, nil)
	}
}

// finish ends a request: its memory is free when it returns, and publish tells its client. Ending it again does nothing.
func (e *Engine) finish(r *request, reason FinishReason, err error) {
	at := slices.Index(e.requests, r)
	if at < 0 {
		return
	}
	e.requests = slices.Delete(e.requests, at, at+1)
	e.mu.Lock()
	delete(e.live, r)
	e.mu.Unlock()
	computed := r.seq.Tokens[:r.seq.Computed]
	e.keep(e.sched.Remove(&r.seq, reason != FinishError))
	if reason != FinishError {
		e.hasEnded(r, computed, time.Now())
	}
	e.books.depart(r, reason)
	e.totals.FinishedRequests++
	done := Event{Type: Done, Finish: reason, Err: err, Usage: r.usage, Timing: r.timing()}
	if !r.stopped { // what was held back, in case it had been the start of something
		text, stopped := r.stop.Add(r.text.Close())
		if !stopped {
			text += r.stop.Close()
		}
		done.Text = text
	}
	e.endings = append(e.endings, ending{r.stream, done})
}

// ending is a Done event on its way.
type ending struct {
	stream *Stream
	event  Event
}

func (r *request) timing() Timing {
	var t Timing
	if !r.started.IsZero() {
		t.Queued = r.started.Sub(r.submitted)
	}
	if !r.first.IsZero() {
		t.Prefill = r.first.Sub(r.started)
		t.FirstToken = r.first.Sub(r.submitted)
		t.Decode = r.last.Sub(r.first)
		t.LongestGap = r.longestGap
		t.DecodeSteps = r.usage.CompletionTokens - 1
	}
	return t
}
