package engine

// The hot path: schedule, run, postprocess. One goroutine owns the device, the scheduler and every
// running request; others reach it through the inbox. Nothing here waits for a client, a disk or
// the network.
//
// A device that works by itself is kept busy: the next step begins before the tokens of the last
// are known, with placeholders for them (step.go), and the loop hands out tokens while it runs.

import (
	"slices"
	"time"

	"headroom/engine/cachemiss"
	"headroom/engine/chat"
	"headroom/engine/problem"
	"headroom/engine/sample"
	"headroom/engine/sched"
	"headroom/engine/tokenizer"
)

// request is a Request at work.
type request struct {
	Request
	seq     sched.Sequence
	sampler *sample.Sampler
	text    *tokenizer.Stream
	stop    *chat.StopMatcher
	stopped bool // by a stop text
	ended   bool // gone: a step may still be under way with it
	stream  *Stream
	usage   Usage
	match   cachemiss.Match // what was known of the prompt when it came

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
		e.beats.Add(1)
		open := e.takeInbox()
		work := e.sched.Next()
		// first: what is read back may come to lie where a prefix lay that is copied from
		copied := e.resume(work)
		for _, p := range e.sched.Promotions() {
			e.fetch(p)
		}
		e.starving(time.Now())
		e.publish() // before the pass, which may be long: who has come and who was cancelled
		switch {
		case len(work) > 0 || e.ahead != nil:
			e.turn(work, copied)
			e.publish()
			e.ease(e.lastTook)
		case open || e.blocks.working > 0:
			<-e.wake
		default:
			return
		}
	}
}

// takeInbox starts what was submitted, does what others ask for and drops what was cancelled. It
// reports false once the engine is closing, when every request has been ended.
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

// turn begins a step with work, if there is any, and ends the one that has run meanwhile. copied is
// resume's.
func (e *Engine) turn(work []sched.Work, copied error) {
	last := e.ahead
	e.ahead = nil
	var next *step
	if len(work) > 0 {
		next = e.begin(work, copied)
	}
	if last != nil {
		e.complete(last)
	}
	switch {
	case next == nil:
	case next.ahead && e.rests() == 0:
		e.ahead = next
	default:
		e.complete(next)
	}
}

// resume copies what the sequences of work that are new to the device go on from. A panic below is
// an error of this step alone.
func (e *Engine) resume(work []sched.Work) (err error) {
	defer recovered(&err)
	for _, w := range work {
		e.restore(w.Restore)
	}
	return nil
}

// restore makes a known prefix the beginning of a sequence: its full pages are shared, the last one
// and the state are copied.
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

// keep copies the state in slot from, for later sequences to go on from. It takes what sched.Remove
// answers.
func (e *Engine) keep(from int32, k *sched.Keep) {
	if k != nil {
		e.runner.CopyState(from, k.Slot)
	}
}

// postprocess tells the requests of a step what has come of it: prompts how far they have been
// read, the others their next token.
func (e *Engine) postprocess(s *step, now time.Time) {
	for i, w := range s.work {
		r := w.Seq.Owner.(*request)
		if r.ended {
			continue
		}
		if s.err != nil {
			e.finish(r, FinishError, s.err)
			continue
		}
		if done := min(w.To, r.usage.PromptTokens); done > r.usage.PromptDoneTokens {
			e.speed.add(now, done-r.usage.PromptDoneTokens, 0)
			e.totals.PromptTokens += int64(done - r.usage.PromptDoneTokens)
			r.usage.PromptDoneTokens = done
			r.stream.put(Event{Type: Prefill, Usage: r.usage})
		}
		if row := s.row[i]; row >= 0 {
			e.next(r, s, row, w.To, now)
		}
	}
}

// next hands out a request's next token, which stands at that position of its sequence: a step's
// choice or sampled from its logits. A panic below ends this request alone.
func (e *Engine) next(r *request, step *step, row, position int, now time.Time) {
	var failed error
	defer func() {
		if failed != nil {
			e.finish(r, FinishError, failed)
		}
	}()
	defer recovered(&failed)
	s, err := step.token(r.sampler, row)
	if err != nil {
		e.finish(r, FinishError,
			problem.Wrap(problem.Internal, err, "The model gave no usable answer",
				"The model's files may be damaged."))
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
	if position == len(r.seq.Tokens) {
		r.seq.Tokens = append(r.seq.Tokens, s.Token)
	} else {
		r.seq.Tokens[position] = s.Token // in its placeholder's place
	}

	event := Event{Type: Token, Token: s.Token, Logprob: s.Logprob, Top: slices.Clone(s.Top),
		Usage: r.usage}
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

// finish ends a request: its memory is free when it returns, and publish tells its client. Ending
// it again does nothing.
func (e *Engine) finish(r *request, reason FinishReason, err error) {
	at := slices.Index(e.requests, r)
	if at < 0 {
		return
	}
	e.requests = slices.Delete(e.requests, at, at+1)
	r.ended = true
	e.mu.Lock()
	delete(e.live, r)
	e.mu.Unlock()
	// all of them known: a placeholder is computed with while the host waits for its token
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
