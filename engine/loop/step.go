package loop

// One forward pass. On the CPU steps follow each other. A GPU chooses the tokens too
// (kernels/sampling), and the next step is launched while it computes: in place of a token that is
// not known yet the sequence has a placeholder, which the device fills in. The delay has one
// consequence: a request that turns out to have ended has gone through one pass more. That pass has
// computed its last token, correctly, and chosen a token that is dropped.
//
// A step is synchronous if one of its sequences needs logits on the host (logprobs, a bias on very
// many tokens). All its tokens are then sampled on the host, with the same result.

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

// steps are the steps of a loop. Two take turns, so that one can be launched while the other is in
// flight.
type steps struct {
	buffers  [2]step
	launched int
	inFlight *step // launched and not completed; nil: none
	lastEnd  time.Time
	lastTook time.Duration
}

// step is one pass over tokens of several sequences. Its slices are reused.
type step struct {
	work []sched.Work
	// logitsRow is, for each work, its index in logitRows; -1: more of its prompt follows.
	logitsRow []int
	tokens    []int32
	spans     []kernels.Span
	logitRows []int32 // rows of tokens whose next token is wanted
	launched  time.Time
	err       error

	// Of a step whose tokens the device chooses.
	async   bool
	choices sample.Rows
	pass    runner.Pass
	chosen  []int32 // by logitRows, once completed

	// Of the others.
	logits []float32 // [len(logitRows), vocab]
	vocab  int
}

// token returns the token that the device has chosen for a row of logitRows, or that s samples.
func (st *step) token(s *sample.Sampler, row int) (sample.Result, error) {
	if st.async {
		return sample.Chosen(st.chosen[row])
	}
	return s.Sample(st.logits[row*st.vocab:][:st.vocab])
}

// launch runs work through the model, or has the GPU begin to, unless restoring its prefixes has
// failed. The scheduler then plans as if the step were complete, because the device works in order.
// Whoever else touches the device's memory calls idle first.
func (l *Loop) launch(work []sched.Work, restoreErr error) *step {
	s := &l.steps.buffers[l.steps.launched%2]
	l.steps.launched++
	s.launched, s.vocab = time.Now(), l.runner.VocabSize()
	s.work = append(s.work[:0], work...)
	s.async = l.runner.Async() && !slices.ContainsFunc(work, samplesOnHost)
	l.gather(s)
	if s.err = restoreErr; restoreErr == nil {
		s.err = l.execute(s)
	}
	for i, w := range s.work {
		if s.err != nil {
			l.sched.Abandon(w)
			continue
		}
		l.sched.Advance(w)
		r := w.Seq.Owner.(*request)
		if s.async && s.logitsRow[i] >= 0 && w.To-len(r.Prompt)+1 < r.MaxTokens {
			w.Seq.Tokens = append(w.Seq.Tokens, sample.Placeholder(s.logitsRow[i]))
		}
	}
	return s
}

// samplesOnHost reports whether the next token of w cannot be chosen on the device.
func samplesOnHost(w sched.Work) bool { return !w.Seq.Owner.(*request).sampler.OnDevice() }

// gather fills the step's batch.
func (l *Loop) gather(s *step) {
	s.logitsRow, s.tokens = s.logitsRow[:0], s.tokens[:0]
	s.spans, s.logitRows = s.spans[:0], s.logitRows[:0]
	s.choices.Reset()
	for _, w := range s.work {
		r := w.Seq.Owner.(*request)
		if r.started.IsZero() {
			l.start(r, s.launched)
		}
		s.spans = append(s.spans, kernels.Span{
			Row: len(s.tokens), Rows: w.To - w.From, Pos: w.From, Pages: w.Seq.Pages,
			Slot: w.Seq.Slot,
			// Tokens generated before a preemption are not part of the prompt.
			Prefill: max(0, min(w.To, r.usage.PromptTokens)-w.From),
		})
		s.tokens = append(s.tokens, w.Seq.Tokens[w.From:w.To]...)
		if w.To < len(w.Seq.Tokens) {
			s.logitsRow = append(s.logitsRow, -1)
			continue
		}
		s.logitsRow = append(s.logitsRow, len(s.logitRows))
		s.logitRows = append(s.logitRows, int32(len(s.tokens)-1))
		if s.async {
			s.choices.Add(r.sampler, w.Seq.Tokens[w.To-1])
		}
	}
}

// start marks a request's first pass and reports at once how much of its prompt was cached.
func (l *Loop) start(r *request, now time.Time) {
	r.started = now
	r.usage.CachedTokens = r.seq.Cached
	r.usage.StoredTokens = max(0, min(r.seq.Cached, r.storedTo)-r.storedFrom)
	r.usage.PromptDoneTokens = r.seq.Cached
	l.counters.CachedTokens += int64(r.seq.Cached)
	r.stream.put(Event{Type: Prefill, Usage: r.usage})
}

// execute gives a step to the device. A panic below, in a kernel or an architecture, fails this
// step only.
func (l *Loop) execute(s *step) (err error) {
	defer recovered(&err)
	if s.async {
		s.pass, err = l.runner.Start(s.tokens, s.spans, s.logitRows, &s.choices, s.rounds()...)
	} else {
		s.logits, err = l.runner.Step(s.tokens, s.spans, s.logitRows, s.rounds()...)
	}
	return err
}

// rounds cuts the step's spans where a recurrent state is to be kept. It returns nil if none is.
func (s *step) rounds() (rounds []batch.Round) {
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
			piece, rest = rest.Split(k.Position - rest.Pos)
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

// complete waits for a step, if it is in flight, and delivers its results.
func (l *Loop) complete(s *step) {
	if s.async && s.err == nil {
		s.chosen, s.err = l.runner.Await(s.pass)
	}
	now := time.Now()
	from := s.launched
	if l.steps.lastEnd.After(from) { // it waited for the previous step
		from = l.steps.lastEnd
	}
	l.steps.lastEnd, l.steps.lastTook = now, now.Sub(from)
	l.sizeMixedChunks(s.work, l.steps.lastTook)
	l.deliver(s, now)
}

// idle waits until the device has done everything it was given. It must be called before anybody
// else reads or writes the device's memory. It reports false if the device has failed, which leaves
// that memory undefined.
func (l *Loop) idle() bool { return l.runner.Sync() == nil }

// recovered, deferred, turns a panic into *err.
func recovered(err *error) {
	if r := recover(); r != nil {
		slog.Error("engine step panicked", "panic", r, "stack", string(debug.Stack()))
		*err = problem.New(problem.Internal, "The engine failed on this request", fmt.Sprint(r),
			"Please report it with the log.")
	}
}
