package convert

// A model whose products are observed: a device that tells which inputs a matrix is about to be
// multiplied with, and which multiplies with another matrix instead. Architectures know nothing of
// it.

import (
	"fmt"
	"slices"

	"headroom/engine/batch"
	"headroom/engine/cache"
	"headroom/engine/checkpoint"
	"headroom/engine/models"
	"headroom/engine/ops"
	"headroom/engine/problem"
	"headroom/engine/runner"
	"headroom/kernels"
	"headroom/kernels/cpu"
)

// inputs are the rows that a matrix is multiplied with. The zero value has none.
type inputs struct {
	count int
	row   func(i int) []float32
	ids   kernels.Tensor // of experts: I32 [M, k], or none
	per   int            // entries of ids that share a row
}

// byExpert returns the rows that each expert gets.
func (x inputs) byExpert(experts int) [][]int32 {
	lists := make([][]int32, experts)
	for m := range x.ids.Rows {
		for j, e := range x.ids.RowRange(m, m+1).Int32s() {
			if e >= 0 && int(e) < experts {
				lists[e] = append(lists[e], int32((m*x.ids.Cols+j)/x.per))
			}
		}
	}
	return lists
}

// target is the rows of a tensor, from the given one on, that are a matrix of the model.
type target struct {
	t   *tensor
	row int
}

// observed is a model whose products are observed.
type observed struct {
	kernels.Device
	weights *checkpoint.Weights
	runner  *runner.Runner
	sample  *sampleText
	targets map[*kernels.Weight]target

	// see is called before a product with some matrices, which all get x, and may call swap; nil:
	// not called.
	see    func(x inputs, weights []*kernels.Weight)
	lookup func(w *kernels.Weight) // before rows of an embedding are read; nil: not called

	swapped map[*kernels.Weight]*kernels.Weight
	memory  [][]byte // of newBytes, until the operator has run
}

// openObserved opens the source of c to run over a text. Errors are Problems.
func openObserved(c *conversion, s *sampleText,
	see func(inputs, []*kernels.Weight)) (o *observed, err error) {
	o = &observed{Device: kernels.NewCPU(cpu.Options{Threads: c.o.threads,
		Float32Activations: true}), sample: s, see: see,
		swapped: map[*kernels.Weight]*kernels.Weight{},
		targets: map[*kernels.Weight]target{}}
	defer func() {
		if err != nil {
			o.close()
		}
	}()
	if o.weights, err = checkpoint.Open(c.source, c.config, o); err != nil {
		return o, err
	}
	m, err := models.Load(o.weights)
	if err != nil {
		return o, err
	}
	tensors := map[string]*tensor{}
	for _, t := range c.tensors {
		tensors[t.name] = t
	}
	for name, parts := range o.weights.Linears() {
		t, row := tensors[name+".weight"], 0
		for _, w := range parts {
			if t != nil && row+w.Experts*w.N <= t.rows && w.K == t.cols {
				o.targets[w] = target{t, row}
			}
			row += w.Experts * w.N
		}
	}
	pages, longest, vocabulary := 0, 0, m.Spec().VocabSize
	for _, ids := range s.sequences {
		if id := slices.Max(ids); int(id) >= vocabulary {
			return o, problem.New(problem.BadRequest, "The calibration text cannot be used",
				fmt.Sprintf("it has token %d, and the model has %d", id, vocabulary),
				"Use a text without special tokens, or the tokenizer of this model.")
		}
		pages += (len(ids) + cache.PageTokens - 1) / cache.PageTokens
		longest = max(longest, len(ids))
	}
	o.runner = runner.New(o, m, runner.Options{KV: calibrationKV, Pages: pages,
		Slots: len(s.sequences), BatchRows: s.tokens, LogitsRows: longest})
	return o, nil
}

func (o *observed) close() {
	if o.weights != nil {
		_ = o.weights.Close()
	}
	o.Device.Close()
}

// head returns the matrix of the head, or nil.
func (o *observed) head() *kernels.Weight {
	linears := o.weights.Linears()
	for _, name := range []string{"lm_head", "language_model.lm_head", "model.embed_tokens",
		"language_model.model.embed_tokens", "backbone.embeddings"} {
		if w := linears[name]; len(w) == 1 && o.targets[w[0]].t != nil {
			return w[0]
		}
	}
	return nil
}

// spans returns the tokens of the text and where its sequences are in the pass.
func (o *observed) spans() (tokens []int32, spans []kernels.Span) {
	page := int32(0)
	for slot, ids := range o.sample.sequences {
		s := kernels.Span{Row: len(tokens), Rows: len(ids), Slot: int32(slot), Prefill: len(ids)}
		for range (len(ids) + cache.PageTokens - 1) / cache.PageTokens {
			s.Pages = append(s.Pages, page)
			page++
		}
		tokens, spans = append(tokens, ids...), append(spans, s)
	}
	return tokens, spans
}

// hidden runs the text and returns copies of the hidden states that the head gets.
func (o *observed) hidden() (all [][]float32, err error) {
	tokens, spans := o.spans()
	rows := make([]int32, len(tokens))
	for i := range rows {
		rows[i] = int32(i)
	}
	err = o.runner.StepHidden(tokens, spans, rows, func(_ int, hidden []float32) {
		all = append(all, append([]float32(nil), hidden...))
	})
	return all, err
}

// scores runs the text and calls read for the logits of each token.
func (o *observed) scores(read func(i int, logits []float32)) error {
	tokens, spans := o.spans()
	rows := make([]int32, len(tokens))
	for i := range rows {
		rows[i] = int32(i)
	}
	_, err := o.runner.StepScored(tokens, spans, rows[:1], rows, read, batch.Round{Spans: spans})
	return err
}

// swap has the model multiply with another matrix until the operator has run.
func (o *observed) swap(w, other *kernels.Weight) { o.swapped[w] = other }

// newBytes returns memory outside the heap, until the operator has run.
func (o *observed) newBytes(n int) []byte {
	b := cpu.Map(n)
	o.memory = append(o.memory, b)
	return b
}

// Run implements kernels.Device.
func (o *observed) Run(op kernels.Op) {
	if p, ok := ops.ProductOf(op); ok {
		o.before(p)
	}
	o.Device.Run(op)
	clear(o.swapped)
	for _, b := range o.memory {
		cpu.Unmap(b)
	}
	o.memory = o.memory[:0]
}

// before tells of a product, and puts other matrices in the place of its own.
func (o *observed) before(p ops.Product) {
	weights := make([]*kernels.Weight, len(p.Weights))
	for i, w := range p.Weights {
		weights[i] = *w
	}
	x := inputs{count: p.X.Rows, row: p.X.Row}
	if !p.IDs.IsNone() {
		x.ids, x.per = p.IDs, max(p.IDs.Rows*p.IDs.Cols/max(p.X.Rows, 1), 1)
	}
	switch {
	case p.Lookup && o.lookup != nil:
		o.lookup(weights[0])
	case !p.Lookup && o.see != nil:
		o.see(x, weights)
	}
	for _, w := range p.Weights {
		*w = o.current(*w)
	}
}

// current returns the matrix that is used instead of w, or w.
func (o *observed) current(w *kernels.Weight) *kernels.Weight {
	if other := o.swapped[w]; other != nil {
		return other
	}
	return w
}
