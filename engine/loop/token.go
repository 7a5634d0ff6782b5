package loop

import (
	"slices"
	"time"

	"headroom/engine/sample"
	"headroom/engine/sched"
)

// deliver gives each request of a step its result: prefill progress, scores, the next token.
func (l *Loop) deliver(s *step, now time.Time) {
	for _, w := range s.work {
		r := w.Seq.Owner.(*request)
		if r.ended {
			continue
		}
		if s.err != nil {
			l.finish(r, FinishError, s.err)
			continue
		}
		if done := r.counted(min(w.To, r.usage.PromptTokens)); done > r.usage.PromptDoneTokens {
			l.counters.addPrompt(now, done-r.usage.PromptDoneTokens)
			r.usage.PromptDoneTokens = done
			r.stream.put(Event{Type: Prefill, Usage: r.usage})
		}
	}
	l.deliverScores(s)
	for i, w := range s.work {
		r := w.Seq.Owner.(*request)
		switch row := s.logitIndex[i]; {
		case r.ended:
		case r.Embed:
			if w.To == len(r.Prompt) {
				r.last = now
				l.deliverVector(r)
			}
		case row >= 0:
			l.emitTokens(r, s, row, w, now)
		case r.NoAnswer && w.To == len(r.Prompt):
			r.last = now
			l.finish(r, FinishLength, nil)
		}
	}
}

// emitTokens gets the next token of a request from row of the step's logits, and those after it as
// long as its drafts were right or its form forces them. A panic, for example in the sampler or the
// tokenizer, ends this request only.
func (l *Loop) emitTokens(r *request, step *step, row int, w sched.Work, now time.Time) {
	var failed error
	defer func() {
		if failed != nil {
			l.finish(r, FinishError, failed)
		}
	}()
	defer recovered(&failed)
	if w.Drafts > 0 {
		failed = l.emitDrafts(r, step, row, w, now)
	} else {
		failed = l.emitToken(r, step, row, w.To, now)
		r.compareTrial()
	}
	for failed == nil && !r.ended && r.form != nil && !l.oneByOne {
		forced := r.form.Forced()
		if len(forced) == 0 {
			return
		}
		failed = l.addToken(r, forcedResult(r, forced[0]), len(r.seq.Tokens), now)
		r.seq.Ahead++
	}
}

// emitToken gets a request's next token from row of the step's logits, stores it at position in the
// sequence, and sends a Token event.
func (l *Loop) emitToken(r *request, step *step, row, position int, now time.Time) error {
	s, err := step.token(r, row)
	if err != nil {
		return err
	}
	return l.addToken(r, s, position, now)
}

// addToken stores the next token of a request at position in its sequence, and sends a Token event.
func (l *Loop) addToken(r *request, s sample.Result, position int, now time.Time) error {
	l.counters.addGenerated(now, r.usage.CompletionTokens == 0)
	if r.usage.CompletionTokens > 0 {
		l.counters.decode += now.Sub(r.last)
	}
	r.observeToken(now)
	r.sampler.Observe(s.Token)
	if r.list != nil {
		r.list.Observe(s.Token)
	}
	if position == len(r.seq.Tokens) {
		r.seq.Tokens = append(r.seq.Tokens, s.Token)
	} else {
		r.seq.Tokens[position] = s.Token // replaces its placeholder
	}

	event := Event{Type: Token, Token: s.Token, Logprob: s.Logprob, Top: slices.Clone(s.Top),
		Usage: r.usage}
	ends, text := l.text.IsEOS(s.Token) && !r.IgnoreEOS, ""
	if !ends {
		text = r.text.Add(s.Token)
	}
	if r.form != nil {
		if err := r.form.Accept(s.Token, text); err != nil {
			return formError(err)
		}
	}
	if ends {
		r.stream.put(event)
		l.finish(r, FinishStop, nil)
		return nil
	}
	event.Text, r.stopped = r.stop.Add(text)
	r.stream.put(event)
	switch {
	case r.stopped, r.form != nil && r.form.Ended():
		l.finish(r, FinishStop, nil)
	case r.usage.CompletionTokens >= r.answerTokens():
		l.finish(r, FinishLength, nil)
	}
	return nil
}

// finish ends a request and frees its memory. publish sends the Done event later. A request that
// has already ended is left alone.
func (l *Loop) finish(r *request, reason FinishReason, err error) {
	at := slices.Index(l.requests, r)
	if at < 0 {
		return
	}
	l.requests = slices.Delete(l.requests, at, at+1)
	r.ended = true
	l.keepDraftMemory(r, reason)
	l.inbox.remove(r)
	// None of these tokens is a placeholder: the steps that sampled them have completed.
	computed := r.seq.Tokens[:r.seq.Exact()]
	l.drafts.remember(r)
	l.keepState(l.sched.Remove(&r.seq, reason != FinishError))
	if reason != FinishError {
		l.saveBlocks(r, computed, time.Now())
	}
	l.adapters.release(r.adapter)
	if !r.Embed { // a request for vectors has many, and its server logs it
		l.log.record(r, reason)
	}
	l.counters.FinishedRequests++
	done := Event{Type: Done, Finish: reason, Err: err, Usage: r.usage, Timing: r.timing(),
		NoDrafts: r.whyNoDrafts()}
	if !r.stopped && !r.Embed { // add the text held back as the possible beginning of a stop text
		text, stopped := r.stop.Add(r.text.Close())
		if !stopped {
			text += r.stop.Close()
		}
		done.Text = text
	}
	l.endings = append(l.endings, ending{r.stream, done})
}

// ending is a Done event that publish sends.
type ending struct {
	stream *Stream
	event  Event
}
