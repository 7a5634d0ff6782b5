package loop

// Scoring: a request with ScorePrompt gets the log-probability of every token of its prompt. The
// token at position i+1 is scored with the logits of row i, so a pass needs the logits of almost
// all rows of such a prompt. The runner computes them a few rows at a time, and only the scores are
// kept (runner.StepScored). The time for this is part of the step, so prefillStall shortens the
// chunks of mixed passes accordingly.
//
// Cached keys and values have no logits, so the prompt is computed from its first token
// (sched.Sequence.Whole). It is not cached either: an evaluation sends thousands of prompts that
// nobody continues, and they would evict conversations.
//
// A request with Candidates needs the logits of its last row only. So its prompt is cached like any
// other, and the next question about the same text costs no more than its own tokens.

import (
	"headroom/engine/problem"
	"headroom/engine/sample"
	"headroom/engine/sched"
)

// Score is the log-probability of a prompt token, given the tokens before it.
type Score struct {
	Token   int32
	Logprob float32
	Top     []sample.TokenLogprob // as many as Sampling.Logprobs asks for
}

// scoring is what a step scores for one of its works.
type scoring struct {
	work       int // index in step.work
	scores     []Score
	candidates []float32 // log-probabilities of Request.Candidates
	err        error
}

// scoredRow is a row whose logits score a token.
type scoredRow struct {
	scoring, score int // indices in step.scorings and in its scores
}

// needsScores reports whether rows of w score prompt tokens or candidates.
func needsScores(w sched.Work) bool {
	from, to := scoredRange(w)
	return from < to
}

// scoredRange returns the positions in w whose logits score the next prompt token, or the last
// position of the prompt, whose logits score candidates. A position that was scored before a
// preemption is not scored again.
func scoredRange(w sched.Work) (from, to int) {
	r := w.Seq.Owner.(*request)
	switch last := len(r.Prompt) - 1; {
	case r.ScorePrompt:
		return max(w.From, r.scored), min(w.To, last)
	case len(r.Candidates) > 0:
		return max(w.From, last), w.To
	}
	return 0, 0
}

// gatherScores adds the rows of s.work[i] that score tokens. firstRow is the row of its first
// token.
func (s *step) gatherScores(i, firstRow int) {
	w := s.work[i]
	from, to := scoredRange(w)
	if from >= to {
		return
	}
	scores := make([]Score, to-from)
	for at := range scores {
		if next := from + at + 1; next < len(w.Seq.Tokens) { // candidates follow the last one
			scores[at].Token = w.Seq.Tokens[next]
		}
		s.scoredRows = append(s.scoredRows, int32(firstRow+from-w.From+at))
		s.scoredAt = append(s.scoredAt, scoredRow{len(s.scorings), at})
	}
	s.scorings = append(s.scorings, scoring{work: i, scores: scores})
}

// score scores the token, or the candidates, of row i of s.scoredRows.
func (s *step) score(i int, logits []float32) {
	at := s.scoredAt[i]
	of := &s.scorings[at.scoring]
	if of.err != nil {
		return
	}
	r := s.work[of.work].Seq.Owner.(*request)
	if len(r.Candidates) > 0 {
		of.candidates, of.err = sample.Logprobs(logits, r.Candidates)
		return
	}
	to := &of.scores[at.score]
	to.Logprob, to.Top, of.err = sample.Score(logits, to.Token, max(0, r.Sampling.Logprobs))
}

// deliverScores sends the scores of a completed step. A prompt with unusable logits ends its
// request.
func (l *Loop) deliverScores(s *step) {
	for _, of := range s.scorings {
		r := s.work[of.work].Seq.Owner.(*request)
		switch {
		case r.ended || s.err != nil:
		case of.err != nil:
			l.finish(r, FinishError, unusable(of.err))
		case of.candidates != nil:
			r.stream.put(Event{Type: Scored, Position: len(r.Prompt), Candidates: of.candidates,
				Usage: r.usage})
		default:
			r.stream.put(Event{Type: Scored, Position: r.scored + 1, Scores: of.scores,
				Usage: r.usage})
			r.scored += len(of.scores)
		}
	}
}

// unusable returns the Problem of logits that only a broken model produces.
func unusable(err error) error {
	return problem.Wrap(problem.Internal, err, "The model computed no usable token",
		"Check whether the model's files are damaged.")
}
