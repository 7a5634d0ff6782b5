package engine

// A step from its beginning to its end. On the CPU they follow each other. A device that works by
// itself chooses the tokens too (kernels/sampling), and while it does the next step begins: in
// place of a token that is not known yet the sequence has a placeholder, which the device fills in.
// What the host learns late changes nothing but this: a request that turns out to have ended has
// gone through one pass more. That pass has computed its last token, rightly, and chosen another
// one, which nobody looks at.
//
// Steps that need logits on the host (logprobs, a bias on very many tokens) are not taken ahead:
// the tokens of all their sequences are sampled there, with the same outcome.

import (
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"time"

	"headroom/engine/batch"
	"headroom/engine/problem"
	"headroom/engine/runner"
	"headroom/engine/sample"
	"headroom/engine/sched"
	"headroom/kernels"
)

// step is one pass over tokens of several sequences.
type step struct {
	work []sched.Work
	// by work: its place among logitRows; -1: it wants no token, there is more of its prompt
	row       []int
	tokens    []int32
	spans     []kernels.Span
	logitRows []int32 // of tokens
	began     time.Time
	err       error

	ahead   bool // it may still be running when the next one begins
	choices sample.Rows
	pass    runner.Pass
	chosen  []int32 // by row, once it has ended

	logits []float32 // unless ahead: of rows, one after another
	vocab  int
}

// token is what the device has chosen in a row, or s samples from its logits.
func (st *step) token(s *sample.Sampler, row int) (sample.Result, error) {
	if st.ahead {
		return sample.Chosen(st.chosen[row])
	}
	return s.Sample(st.logits[row*st.vocab:][:st.vocab])
}

// begin takes work through the model, or has the device do it, unless its prefixes could not be
// copied. The scheduler then plans as if it were done: the device does things in order. What reads
// or writes the device's memory beside it has to wait (settled).
func (e *Engine) begin(work []sched.Work, copied error) *step {
	s := &e.steps[e.begun%2] // the other one may be under way
	e.begun++
	s.began, s.vocab = time.Now(), e.runner.VocabSize()
	s.work = append(s.work[:0], work...)
	s.ahead = e.runner.Ahead() &&
		!slices.ContainsFunc(work,
			func(w sched.Work) bool { return !w.Seq.Owner.(*request).sampler.OnDevice() })
	e.gather(s)
	if s.err = copied; copied == nil {
		s.err = e.run(s)
	}
	for i, w := range s.work {
		if s.err != nil {
			e.sched.Abandon(w)
			continue
		}
		e.sched.Advance(w)
		if r := w.Seq.Owner.(*request); s.ahead && s.row[i] >= 0 &&
			w.To-len(r.Prompt)+1 < r.MaxTokens {
			w.Seq.Tokens = append(w.Seq.Tokens, sample.Placeholder(s.row[i]))
		}
	}
	return s
}

// gather fills the step's batch.
func (e *Engine) gather(s *step) {
	s.row, s.tokens, s.spans, s.logitRows = s.row[:0], s.tokens[:0], s.spans[:0], s.logitRows[:0]
	s.choices.Reset()
	for _, w := range s.work {
		r := w.Seq.Owner.(*request)
		if r.started.IsZero() {
			e.start(r, s.began)
		}
		s.spans = append(s.spans, kernels.Span{
			Row: len(s.tokens), Rows: w.To - w.From, Pos: w.From, Pages: w.Seq.Pages,
			Slot: w.Seq.Slot,
			// what it generated before it was preempted is no prompt
			Prefill: max(0, min(w.To, r.usage.PromptTokens)-w.From),
		})
		s.tokens = append(s.tokens, w.Seq.Tokens[w.From:w.To]...)
		if w.To < len(w.Seq.Tokens) {
			s.row = append(s.row, -1)
			continue
		}
		s.row = append(s.row, len(s.logitRows))
		s.logitRows = append(s.logitRows, int32(len(s.tokens)-1))
		if s.ahead {
			s.choices.Add(r.sampler, w.Seq.Tokens[w.To-1])
		}
	}
}

// start takes note of a request's first pass, and tells its client at once how much of the prompt
// was cached.
func (e *Engine) start(r *request, now time.Time) {
	r.started = now
	r.usage.CachedTokens = r.seq.Cached
	r.usage.StoredTokens = max(0, min(r.seq.Cached, r.storedTo)-r.storedFrom)
	r.usage.PromptDoneTokens = r.seq.Cached
	e.totals.CachedTokens += int64(r.seq.Cached)
	r.stream.put(Event{Type: Prefill, Usage: r.usage})
}

// run gives a step to the device. A panic below, in a kernel or an architecture, is an error of
// this step alone.
func (e *Engine) run(s *step) (err error) {
	defer recovered(&err)
	if s.ahead {
		s.pass, err = e.runner.Start(s.tokens, s.spans, s.logitRows, &s.choices, s.cut()...)
	} else {
		s.logits, err = e.runner.Step(s.tokens, s.spans, s.logitRows, s.cut()...)
	}
	return err
}

// cut cuts the step's spans where a state is to be kept, for the layers that have one; nil when
// there is nothing to keep.
func (s *step) cut() (rounds []batch.Round) {
	if !slices.ContainsFunc(s.work, func(w sched.Work) bool { return len(w.Keeps) > 0 }) {
		return nil
	}
	round := func(n int) *batch.Round {
		if n == len(rounds) {
			rounds = append(rounds, batch.Round{})
		}
		return &rounds[n]
	}
	for i, w := range s.work {
		rest := s.spans[i]
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

// complete waits for a step, if it is under way, and hands out what has come of it.
func (e *Engine) complete(s *step) {
	if s.ahead && s.err == nil {
		s.chosen, s.err = e.runner.Await(s.pass)
	}
	now := time.Now()
	from := s.began
	if e.lastEnd.After(from) { // it stood in line
		from = e.lastEnd
	}
	e.lastEnd, e.lastTook = now, now.Sub(from)
	e.paced(s.work, e.lastTook)
	e.postprocess(s, now)
}

// settled waits until the device has done all it was given. It must be called before its memory is
// read or written by others, and answers false if that makes no sense any more: a device that
// failed has left anything in it.
func (e *Engine) settled() bool { return e.runner.Sync() == nil }

// recovered, deferred, turns a panic into *err.
func recovered(err *error) {
	if r := recover(); r != nil {
		slog.Error("engine step panicked", "panic", r, "stack", string(debug.Stack()))
		*err = problem.New(problem.Internal, "The engine failed on this request", fmt.Sprint(r),
			"Please report it with the log.")
	}
}
