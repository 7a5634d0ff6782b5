package loop

// A step is one forward pass. On the CPU, each step completes before the next one is launched. A
// GPU also samples the tokens (kernels/sampling), so the next step is launched while the previous
// one runs. A sequence contains a placeholder for a token that the host does not know yet, and the
// device replaces it. The loop therefore learns one pass late that a request has ended. The extra
// pass computes the request's last token, which can then be cached. The token that this pass
// samples is dropped.
//
// A step is synchronous if one of its sequences needs logits on the host, for example for logprobs,
// for the scores of its prompt or for a bias on very many tokens. The host then samples all tokens
// of the step, with the same result. A step is also synchronous if one decodes ahead (draft.go),
// but a GPU still samples its tokens, so that the host gets tokens alone.

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"time"

	"headroom/engine/batch"
	"headroom/engine/cache"
	"headroom/engine/problem"
	"headroom/engine/runner"
	"headroom/engine/sample"
	"headroom/engine/sched"
	"headroom/kernels"
)

// steps holds the steps of a loop. It has two buffers, so that one step can be launched while the
// other is in flight.
type steps struct {
	buffers  [2]step
	launched int           // number of steps launched so far
	inFlight *step         // launched and not yet completed; nil: none
	began    time.Time     // when the step that is planned began to be planned
	lastEnd  time.Time     // when the last step completed
	lastTook time.Duration // duration of the last step
}

// step is one pass over tokens of several sequences. Its slices are reused by later steps.
type step struct {
	work []sched.Work
	// logitIndex has an entry for each Work: its index in logitRows, or -1 if the step does not
	// reach the end of the sequence. The rows of drafts come after that of the token before them.
	logitIndex []int
	tokens     []int32
	spans      []kernels.Span
	logitRows  []int32       // rows of the tokens whose logits are needed
	split      []batch.Round // memory of rounds
	began      time.Time     // when it began to be planned
	drafting   time.Duration // of the drafter's steps before it
	drafter    float64       // seconds that such steps take on average
	launched   time.Time
	err        error

	// If the device samples the tokens:
	onDevice bool
	async    bool // the host does not wait for them
	choices  sample.Rows
	pass     runner.Pass
	chosen   []int32 // the sampled token for each of logitRows, once the step has completed

	// If the host samples them:
	logits []float32 // [len(logitRows), vocab]
	vocab  int

	// If prompt tokens are scored (score.go):
	scorings   []scoring
	scoredRows []int32     // the rows whose logits score them
	scoredAt   []scoredRow // of the same length

	// If the model computes vectors (embed.go):
	pooledRows []int32     // the rows whose hidden states are read
	pooledAt   []pooledRow // of the same length
}

// token returns the next token of r, for logitRows[row]. The device has sampled it, or the form of
// the answer forces it, or the sampler chooses it now.
func (st *step) token(r *request, row int) (sample.Result, error) {
	var s sample.Result
	var err error
	if st.onDevice {
		s, err = sample.Chosen(st.chosen[row])
	} else {
		if r.form != nil {
			if forced := r.form.Forced(); len(forced) > 0 {
				return forcedResult(r, forced[0]), nil
			}
			if err := r.setMask(); err != nil {
				return sample.Result{}, err
			}
		}
		s, err = r.sampler.Sample(st.logits[row*st.vocab:][:st.vocab])
	}
	if err != nil && !errors.Is(err, sample.ErrChoice) {
		err = unusable(err)
	}
	return s, err
}

// launch starts a step. If the step is synchronous, launch returns when it has run. If restoreErr
// is not nil, the step fails without running. After launch the scheduler plans as if the step had
// run, because the device works in order. All other code must call waitForDevice before it accesses
// device memory.
func (l *Loop) launch(work []sched.Work, restoreErr error) *step {
	s := &l.steps.buffers[l.steps.launched%2]
	l.steps.launched++
	s.began, s.launched, s.vocab = l.steps.began, time.Now(), l.runner.VocabSize()
	s.drafting, s.drafter = l.drafts.chains.took, l.drafts.chains.usual
	s.work = append(s.work[:0], work...)
	s.onDevice = l.runner.Async() && !slices.ContainsFunc(work, needsLogits)
	s.async = s.onDevice && !slices.ContainsFunc(work, awaits)
	l.gather(s)
	s.prepareForms()
	l.stepTime.launch(s.work)
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
		r.countPass(w)
		if s.async && s.logitIndex[i] >= 0 && w.To-len(r.Prompt)+1 < r.answerTokens() {
			w.Seq.Tokens = append(w.Seq.Tokens, sample.Placeholder(s.logitIndex[i]))
		}
	}
	return s
}

// needsLogits reports whether the host needs logits of w, to sample the next token or to score
// prompt tokens, or its hidden states. After a draft, what penalties depend on is another one.
func needsLogits(w sched.Work) bool {
	r := w.Seq.Owner.(*request)
	return r.Embed || !r.sampler.OnDevice() || needsScores(w) ||
		w.Drafts > 0 && r.sampler.Remembers()
}

// awaits reports whether the host needs the next token of w before it plans another pass.
func awaits(w sched.Work) bool { return w.Seq.Owner.(*request).awaited }

// gather fills in the batch of a step from its work.
func (l *Loop) gather(s *step) {
	s.logitIndex, s.tokens = s.logitIndex[:0], s.tokens[:0]
	s.spans, s.logitRows = s.spans[:0], s.logitRows[:0]
	s.scorings, s.scoredRows, s.scoredAt = s.scorings[:0], s.scoredRows[:0], s.scoredAt[:0]
	s.pooledRows, s.pooledAt = s.pooledRows[:0], s.pooledAt[:0]
	s.choices.Reset()
	for i, w := range s.work {
		r := w.Seq.Owner.(*request)
		if r.started.IsZero() {
			l.start(r, s.launched)
		}
		s.spans = append(s.spans, kernels.Span{
			Row: len(s.tokens), Rows: w.To - w.From, Pos: w.From, Pages: w.Seq.Pages,
			Slot: w.Seq.Slot,
			// Tokens generated before a preemption are not part of the prompt.
			Prefill: max(0, min(w.To, r.usage.PromptTokens)-w.From),
			Compact: r.compactFor(w.To),
			Adapter: r.adapter.number(),
		})
		s.gatherScores(i, len(s.tokens))
		if r.Embed {
			s.gatherPooled(w, len(s.tokens), l.runner.Embeds().Pooling)
		}
		s.tokens = append(s.tokens, w.Seq.Tokens[w.From:w.To]...)
		if w.To < len(w.Seq.Tokens) || r.NoAnswer || r.Embed {
			s.logitIndex = append(s.logitIndex, -1)
			continue
		}
		s.logitIndex = append(s.logitIndex, len(s.logitRows))
		for before := w.Drafts; before >= 0; before-- {
			s.logitRows = append(s.logitRows, int32(len(s.tokens)-1-before))
		}
		if s.onDevice {
			s.choices.Add(r.sampler, w.Seq.Tokens[w.To-1-w.Drafts])
			for n := range w.Drafts {
				s.choices.AddAfter(r.sampler, n+1)
			}
		}
	}
}

// compactFor returns the selection of a request for a step that computes its tokens up to to. The
// result is nil if the step neither selects nor reads a selection.
func (r *request) compactFor(to int) *kernels.Compact {
	q := &r.seq
	s := q.Select
	if s.Prompt == 0 || to < s.Prompt {
		return nil
	}
	c := &r.compact
	table := append(c.Table[:0], q.Pages[:s.First/cache.PageTokens]...)
	table = append(table, q.Selected...)
	*c = kernels.Compact{Prompt: s.Prompt, Observe: s.Observe, First: s.First, From: s.From,
		Tokens: s.Tokens, Pages: q.Selected,
		Table: append(table, q.Pages[s.From/cache.PageTokens:]...)}
	return c
}

// start records that the first pass of a request begins now. It sends a Prefill event, which tells
// how many prompt tokens were cached.
func (l *Loop) start(r *request, now time.Time) {
	r.started = now
	cached := r.counted(r.seq.Cached)
	r.usage.CachedTokens, r.usage.PromptDoneTokens = cached, cached
	r.usage.StoredTokens = max(0, min(cached, r.storedTo)-r.storedFrom)
	l.countPreloaded(r)
	l.counters.CachedTokens += int64(cached)
	l.counters.StoredTokens += int64(r.usage.StoredTokens)
	r.stream.put(Event{Type: Prefill, Usage: r.usage})
}

// execute runs a step on the device or, if it is async, starts it. A panic in a kernel or an
// architecture fails this step only.
func (l *Loop) execute(s *step) (err error) {
	defer recovered(&err)
	switch {
	case s.onDevice:
		s.pass, err = l.runner.Start(s.tokens, s.spans, s.logitRows, &s.choices, s.rounds()...)
		if err == nil && !s.async {
			s.chosen, err = l.runner.Await(s.pass)
		}
	case l.runner.Embeds() != nil:
		return l.executeVectors(s)
	case len(s.scoredRows) > 0:
		s.logits, err = l.runner.StepScored(s.tokens, s.spans, s.logitRows, s.scoredRows, s.score,
			s.rounds()...)
	case l.stoppable(s):
		s.logits, err = l.runner.StepUntil(&l.inbox.urgent, s.tokens, s.spans, s.logitRows)
	default:
		s.logits, err = l.runner.Step(s.tokens, s.spans, s.logitRows, s.rounds()...)
	}
	return err
}

// rounds splits the spans of the step at the positions where a recurrent state must be kept: for
// later prompts, or before a draft. It returns nil if there are no such positions. The result is
// valid until the step's next call.
func (s *step) rounds() []batch.Round {
	if !slices.ContainsFunc(s.work, func(w sched.Work) bool { return len(w.Keeps) > 0 }) {
		return nil
	}
	used := 0
	round := func(n int) *batch.Round {
		if n == len(s.split) {
			s.split = append(s.split, batch.Round{})
		}
		r := &s.split[n]
		if n == used {
			r.Spans, r.Keeps, used = r.Spans[:0], r.Keeps[:0], used+1
		}
		return r
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
	return s.split[:used]
}

// complete waits until a step has run and delivers its results.
func (l *Loop) complete(s *step) {
	if s.async && s.err == nil {
		s.chosen, s.err = l.runner.Await(s.pass)
	}
	if s.err != nil && l.config.DeviceError != nil {
		s.err = l.config.DeviceError(s.err)
	}
	now := time.Now()
	from := s.launched
	if l.steps.lastEnd.After(from) { // the device was still running the previous step
		from = l.steps.lastEnd
	}
	l.steps.lastEnd, l.steps.lastTook = now, now.Sub(from)
	l.sizeMixedChunks(s.work, l.steps.lastTook)
	l.sizeBackgroundChunks(s.work, l.steps.lastTook)
	if slices.ContainsFunc(s.work, func(w sched.Work) bool { return w.Seq.Background }) {
		l.stopsInRow = 0
	}
	l.stepTime.complete(s.work, l.steps.lastTook)
	l.background.observe(s.work, l.steps.lastTook)
	l.sched.ShareSteps(l.background.allowed())
	l.counters.speed.began = from.UnixNano()
	if s.err == nil {
		l.observeDrafts(s, now)
		l.chargeDrafts(s, now)
	}
	l.deliver(s, now)
}

// waitForDevice waits until the device has finished all its work. Call it before accessing device
// memory. It returns false if the device has failed, and the contents of its memory are then
// undefined.
func (l *Loop) waitForDevice() bool { return l.runner.Sync() == nil }

// recovered recovers from a panic and stores it in *err as a Problem. It must be deferred.
func recovered(err *error) {
	if r := recover(); r != nil {
		slog.Error("engine step panicked", "panic", r, "stack", string(debug.Stack()))
		*err = problem.New(problem.Internal, "The engine failed on this request", fmt.Sprint(r),
			"Please report it with the log.")
	}
}
