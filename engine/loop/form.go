package loop

// Answers of a given form (engine/structured). Before each token of such an answer, a mask says
// which tokens may come. It is computed beside the pass that computes the logits. Where the form
// leaves no choice, tokens are added without logits, and the next pass computes them together.

import (
	"errors"

	"headroom/engine/grammar/regular"
	"headroom/engine/problem"
	"headroom/engine/sample"
)

// prepareForms begins to compute the masks for the tokens of a step.
func (s *step) prepareForms() {
	for i, w := range s.work {
		if r := w.Seq.Owner.(*request); r.form != nil && s.logitIndex[i] >= 0 {
			r.form.Prepare()
		}
	}
}

// forcedResult is the result for a token that has probability 1.
func forcedResult(r *request, token int32) sample.Result {
	s := sample.Result{Token: token}
	if r.Sampling.Logprobs > 0 {
		s.Top = []sample.TokenLogprob{{Token: token}}
	}
	return s
}

// setMask restricts the next token of r to those that its form allows.
func (r *request) setMask() error {
	mask, err := r.form.Mask()
	if err != nil {
		return formError(err)
	}
	if r.sampler.SetMask(nil); mask != nil {
		r.sampler.SetMask(mask.Bits)
	}
	return nil
}

// formError says why an answer cannot go on in its form.
func formError(err error) error {
	code, fix := problem.Internal, ""
	if errors.Is(err, regular.ErrTooComplex) {
		code, fix = problem.BadRequest, "Send a simpler grammar, schema or regular expression."
	}
	return problem.Wrap(code, err, "The answer cannot go on in the form that the request demands",
		fix)
}
