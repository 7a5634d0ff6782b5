package loop

// Vectors: a request with Embed gets the vector of its prompt, or its score, and no answer. Each
// pass gives the hidden states of some of its tokens, which are pooled here in the order of the
// tokens and in float64. So a vector depends neither on the chunks of the prompt nor on the batch.
// The texts of which a step computes the end are then turned into vectors together.
//
// The prompt is computed from its first token and not cached: pooling needs the hidden states of
// all tokens, and nobody continues such a prompt.

import (
	"errors"
	"math"
	"slices"

	"headroom/engine/modelfile"
	"headroom/engine/problem"
	"headroom/engine/sched"
)

// pooledRow is a row of a step whose hidden states belong to a vector.
type pooledRow struct {
	request *request
	first   bool // the request's sums begin again
}

// checkEmbed returns a Problem if the model computes something else than the request asks for.
func (l *Loop) checkEmbed(r *Request) error {
	vectors := l.runner.Embeds()
	switch {
	case r.Embed == (vectors != nil):
		return nil
	case r.Embed:
		return problem.New(problem.BadRequest, "This model generates text, not vectors", "",
			"Use an embedding model for vectors, and a reranker for scores.")
	case vectors.Task == modelfile.Rerank:
		return problem.New(problem.BadRequest, "This model is a reranker and generates no text", "",
			"Send a query and documents to /v1/rerank, or pick a language model.")
	}
	return problem.New(problem.BadRequest, "This model is an embedding model and generates no text",
		"", "Send texts to /v1/embeddings, or pick a language model.")
}

// gatherPooled adds the rows of w that belong to the vector of its request. firstRow is the row of
// its first token.
func (s *step) gatherPooled(w sched.Work, firstRow int, pooling modelfile.Pooling) {
	r := w.Seq.Owner.(*request)
	from, to := w.From, w.To
	switch pooling {
	case modelfile.PoolFirst:
		to = min(to, 1)
	case modelfile.PoolLast:
		from = max(from, len(r.Prompt)-1)
	}
	for at := from; at < to; at++ {
		s.pooledRows = append(s.pooledRows, int32(firstRow+at-w.From))
		s.pooledAt = append(s.pooledAt, pooledRow{r, at == from && w.From == 0 ||
			pooling == modelfile.PoolLast})
	}
}

// pool adds the hidden states of row i of s.pooledRows to the sums of its request.
func (s *step) pool(i int, hidden []float32) {
	at := s.pooledAt[i]
	r := at.request
	if at.first {
		r.pooled = make([]float64, len(hidden))
	}
	for k, x := range hidden {
		r.pooled[k] += float64(x)
	}
}

// executeVectors runs a step that pools hidden states. Then it computes the vectors of the requests
// of which it has computed the last token.
func (l *Loop) executeVectors(s *step) error {
	if err := l.runner.StepHidden(s.tokens, s.spans, s.pooledRows, s.pool); err != nil {
		return err
	}
	vectors := l.runner.Embeds()
	var ended []*request
	var pooled [][]float32
	for _, w := range s.work {
		r := w.Seq.Owner.(*request)
		if w.To < len(r.Prompt) {
			continue
		}
		count := 1.0
		if vectors.Pooling == modelfile.PoolMean {
			count = float64(len(r.Prompt))
		}
		row := make([]float32, len(r.pooled))
		for k, x := range r.pooled {
			row[k] = float32(x / count)
		}
		ended, pooled, r.pooled = append(ended, r), append(pooled, row), nil
	}
	if len(ended) == 0 {
		return nil
	}
	values, err := l.runner.Vectors(pooled)
	if err != nil {
		return err
	}
	for i, r := range ended {
		r.vector = make([]float32, vectors.Size)
		copy(r.vector, values[i*vectors.Size:])
		if vectors.Normalize {
			normalize(r.vector)
		}
	}
	return nil
}

// ShortenVector returns the first dimensions of a vector, with the length 1 if normalized is true.
func ShortenVector(v []float32, dimensions int, normalized bool) []float32 {
	v = slices.Clone(v[:dimensions])
	if normalized {
		normalize(v)
	}
	return v
}

// normalize divides a vector by its length, unless that is 0.
func normalize(v []float32) {
	var squares float64
	for _, x := range v {
		squares += float64(x) * float64(x)
	}
	if length := math.Sqrt(squares); length > 0 {
		for i, x := range v {
			v[i] = float32(float64(x) / length)
		}
	}
}

// errNotFinite is the error of a vector with an infinite element, or one that is not a number.
var errNotFinite = errors.New("a vector has an element that is not a finite number")

// deliverVector sends the vector of a request and ends the request.
func (l *Loop) deliverVector(r *request) {
	for _, x := range r.vector {
		if x-x != 0 {
			l.finish(r, FinishError, unusable(errNotFinite))
			return
		}
	}
	r.stream.put(Event{Type: Embedded, Vector: r.vector, Usage: r.usage})
	l.finish(r, FinishStop, nil)
}
