package decisions

// How the probabilities of options are read. Each option has a label, and the probability of an
// option is that of its label among all labels of the question.
//
// Up to 26 options are labelled A to Z, which are one token in practice: one prompt is read. Up to
// 255 are labelled with two letters. Those pairs are taken first that are one token in the model's
// vocabulary. The probability of a label of several tokens is the product of theirs, each read
// after the ones before it, so it is exact in any vocabulary. No label of a question begins with
// another one.

import (
	"context"
	"math"
	"slices"
	"sync"

	"headroom/engine/chat"
	"headroom/engine/generate"
)

// decision is a request whose answers are read.
type decision struct {
	model     string
	questions []Question
	readings  []reading // one for each question
	count     int       // reads of all questions
}

// reading says where the log-probabilities of the labels of a question are read. A label has a
// place for each of its tokens.
type reading [][]place

// place is a token of a read.
type place struct{ read, token int }

// reads implements server.Call.Reads.
func (d *decision) reads(ctx context.Context, r *generate.Request, m generate.Model,
	contextTokens int) (reads []generate.Read, err error) {
	pairs := sync.OnceValues(func() ([]string, error) { return letterPairs(ctx, r, m) })
	var head []int32
	for i := range d.questions {
		q := &d.questions[i]
		labels, err := q.labels(pairs)
		if err != nil {
			return nil, err
		}
		ask := *r
		ask.Messages = append(slices.Clip(r.Messages),
			chat.Message{Role: "user", Content: q.text(labels)})
		prompt, ends, err := ask.EncodeLabels(ctx, m, contextTokens, labels)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			head = prompt
		}
		reads = d.add(reads, head, prompt, ends)
	}
	d.count = len(reads)
	return reads, nil
}

// labels returns the labels of a question's options. pairs returns pairs of letters, at least as
// many as a question may have options.
func (q *Question) labels(pairs func() ([]string, error)) ([]string, error) {
	n := len(q.Options)
	switch {
	case q.Kind == Predicate:
		return []string{q.Options[0].Text, q.Options[1].Text}, nil
	case n <= len(letters):
		return letters[:n], nil
	}
	list, err := pairs()
	if err != nil {
		return nil, err
	}
	return list[:n], nil
}

// letters are A to Z.
var letters = func() (list []string) {
	for c := 'A'; c <= 'Z'; c++ {
		list = append(list, string(c))
	}
	return list
}()

// letterPairs returns AA to ZZ. Pairs that are one token come first, and then the others, so that
// those with the same first letter follow one another.
func letterPairs(ctx context.Context, r *generate.Request, m generate.Model) ([]string, error) {
	var all, ordered, others []string
	for _, first := range letters {
		for _, second := range letters {
			all = append(all, first+second)
		}
	}
	ask := *r
	ask.Messages = []chat.Message{{Role: "user", Content: "Which?"}}
	_, ends, err := ask.EncodeLabels(ctx, m, 0, all)
	if err != nil {
		return nil, err
	}
	for i, pair := range all {
		if len(ends[i]) == 1 {
			ordered = append(ordered, pair)
		} else {
			others = append(others, pair)
		}
	}
	return append(ordered, others...), nil
}

// add adds the reads of a question to those of the questions before it. Its prompt shares the
// beginning of head, that of the first question. ends has the tokens of each label after it.
func (d *decision) add(reads []generate.Read, head, prompt []int32,
	ends [][]int32) []generate.Read {
	shared := generate.CommonTokens(head, prompt)
	first := len(reads)
	found := make(reading, len(ends))
	for depth, more := 0, true; more; depth++ {
		more = false
		for i, end := range ends {
			if depth >= len(end) {
				continue
			}
			more = true
			at := first + slices.IndexFunc(reads[first:], func(r generate.Read) bool {
				return slices.Equal(r.Own[len(prompt)-shared:], end[:depth])
			})
			if at < first {
				at = len(reads)
				reads = append(reads, generate.Read{Shared: head[:shared:shared],
					Own: slices.Concat(prompt[shared:], end[:depth]), Continues: depth > 0})
			}
			token := slices.Index(reads[at].Tokens, end[depth])
			if token < 0 {
				token = len(reads[at].Tokens)
				reads[at].Tokens = append(reads[at].Tokens, end[depth])
			}
			found[i] = append(found[i], place{at, token})
		}
	}
	// The first question leaves the state in the cache. A question whose labels have several tokens
	// needs its own prompt again.
	reads[first].Keep = first == 0 || len(reads) > first+1
	d.readings = append(d.readings, found)
	return reads
}

// probabilities returns the probabilities of the labels of a question. logprobs has those of the
// tokens of each read. ok is false if the model gives none of the labels any probability.
func (r reading) probabilities(logprobs [][]float32) (p []float64, ok bool) {
	p = make([]float64, len(r))
	peak := math.Inf(-1)
	for i, places := range r {
		for _, at := range places {
			p[i] += float64(logprobs[at.read][at.token])
		}
		peak = max(peak, p[i])
	}
	if math.IsInf(peak, -1) {
		return nil, false
	}
	sum := 0.0
	for i := range p {
		p[i] = math.Exp(p[i] - peak)
		sum += p[i]
	}
	for i := range p {
		p[i] /= sum
	}
	return p, true
}
