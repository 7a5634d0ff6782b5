package decisions

import (
	"headroom/engine/generate"
	"headroom/engine/server"
)

// answer is the answer to a question.
type answer struct {
	refused       bool // the model gives no option any probability
	probabilities []float64
	best          int // the most likely option, the first one if there are several
}

// score returns the expected number of the option, counted from 0.
func (a *answer) score() (expected float64) {
	for i, p := range a.probabilities {
		expected += float64(i) * p
	}
	return expected
}

// confidence returns how far the best option is from an even distribution: 0 if all options are
// equally likely, 1 if the best one is certain.
func (a *answer) confidence() float64 {
	n := float64(len(a.probabilities))
	return max(0, (n*a.probabilities[a.best]-1)/(n-1))
}

// answers returns the answers from what was read.
func (d *decision) answers(read [][]float32) []answer {
	list := make([]answer, len(d.readings))
	for i, r := range d.readings {
		p, ok := r.probabilities(read)
		list[i] = answer{refused: !ok, probabilities: p}
		for at := range p {
			if p[at] > p[list[i].best] {
				list[i].best = at
			}
		}
	}
	return list
}

// document makes the document of an API from a decision and the answers to its questions.
type document func(d *decision, answers []answer, usage generate.Usage) any

// renderer renders a decision. It is never streamed.
type renderer struct {
	decision *decision
	document document
}

func (r *renderer) Whole(a generate.Answer) any {
	return r.WholeChoices([]generate.Answer{a}, a.Usage)
}

func (r *renderer) WholeChoices(list []generate.Answer, all generate.Usage) any {
	read := make([][]float32, len(list))
	for i := range list {
		read[i] = list[i].Logprobs
	}
	return r.document(r.decision, r.decision.answers(read), all)
}

func (r *renderer) Start() []server.Event                                       { return nil }
func (r *renderer) Delta(generate.Delta) []server.Event                         { return nil }
func (r *renderer) Next(generate.FinishReason) []server.Event                   { return nil }
func (r *renderer) Finish(generate.FinishReason, generate.Usage) []server.Event { return nil }
