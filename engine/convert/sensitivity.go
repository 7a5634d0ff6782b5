package convert

// Bits for a target of bits per weight: more for the matrices whose rounding changes the model's
// answers most.
//
// Each matrix in turn is packed alone, in probeBits bits, and the model runs over a part of the
// calibration text. The sensitivity is the divergence of the probabilities from those of the
// original (Kullback and Leibler's), as the increase of the loss follows from it. The rounding of
// weights is small noise, so for other bits the divergence is taken to grow with the square of the
// error, and for several matrices to add up. The bits with the least sum within the target then
// follow by the best gain per byte, step by step.

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"headroom/engine/problem"
	"headroom/kernels"
	"headroom/kernels/cpu"
	"headroom/kernels/quantize"
)

const (
	leastTarget, mostTarget = 2.25, 8.5 // bits per weight

	probeBits   = 3
	probeTokens = 1024
	// probeSequence is how much of a sequence of the text is used.
	probeSequence = 256
	// likeliest is how many tokens of a position are compared one by one. The others count as one.
	likeliest = 64
	// smallPart is the part of the model below which a matrix gets the most bits without a probe.
	smallPart = 1.0 / 2000
)

// choices are the bits that a matrix can have.
var choices = []int{2, 3, 4, 5, 6, 8}

// candidate is a matrix whose bits are chosen.
type candidate struct {
	t      *tensor
	module string
	bits   int       // those chosen
	loss   []float64 // of choices
}

// chooseBits sets the bits of all matrices for the target of the options, if there is one.
func (c *conversion) chooseBits(ctx context.Context) error {
	if c.o.TargetBPW == 0 {
		return nil
	}
	all, total := c.candidates()
	if c.state.Bits == nil {
		for _, one := range all {
			c.setBits(one, choices[0])
		}
		if err := c.layOutAgain(); err != nil {
			return err
		}
		budget := int64(c.o.TargetBPW*float64(c.parameters)/8) - c.bytes
		if budget < 0 {
			return problem.New(problem.BadRequest, "The target cannot be reached",
				fmt.Sprintf("it is %.2f bits per weight, and the least is %.2f", c.o.TargetBPW,
					float64(c.bytes)*8/float64(c.parameters)), "Choose a larger one.")
		}
		if err := c.probe(ctx, all, total); err != nil {
			return err
		}
		spend(all, budget)
		c.state.Bits = map[string]int{}
		for _, one := range all {
			c.state.Bits[one.module] = one.bits
		}
	}
	for _, one := range all {
		c.setBits(one, c.state.Bits[one.module])
	}
	if err := c.layOutAgain(); err != nil {
		return err
	}
	return wrap(c.saveState(), "The folder cannot be written")
}

// candidates returns the matrices whose bits neither the user nor the family has set, and how many
// elements they have.
func (c *conversion) candidates() (all []*candidate, elements int) {
	for _, t := range c.tensors {
		module := strings.TrimSuffix(t.name, ".weight")
		if t.format == nil || c.formats.overridden(module) != nil ||
			slices.ContainsFunc(c.family.eight, func(end string) bool {
				return strings.HasSuffix(module, end)
			}) {
			continue
		}
		all = append(all, &candidate{t: t, module: module})
		elements += t.rows * t.cols
	}
	return all, elements
}

// setBits sets the bits of a matrix, and what config.json says of it.
func (c *conversion) setBits(one *candidate, bits int) {
	f := *c.formats.all
	f.Bits = bits
	one.bits, one.t.format = bits, &f
	delete(c.formats.entries, one.module)
	if f != *c.formats.all {
		c.formats.entries[one.module] = entryOf(f)
	}
}

// layOutAgain lays out the files after bits have changed.
func (c *conversion) layOutAgain() (err error) {
	c.shards, c.bytes, c.parameters = nil, 0, 0
	if err := c.layOut(); err != nil {
		return err
	}
	c.state.total = c.bytes
	if c.state.Files, err = c.created(); err != nil {
		return wrap(err, "The files beside the weights cannot be read")
	}
	return c.checkSpace()
}

// probe measures what each matrix costs in each number of bits.
func (c *conversion) probe(ctx context.Context, all []*candidate, elements int) error {
	var in *tensor // that is packed
	weights := map[*tensor]*kernels.Weight{}
	var o *observed
	swap := func(w *kernels.Weight) {
		at := o.targets[w]
		if in == nil || at.t != in {
			return
		}
		part := weights[in].Rows(at.row, at.row+w.Experts*w.N)
		part.Experts, part.N = w.Experts, w.N
		o.swap(w, &part)
	}
	o, err := openObserved(c, c.sample.probe(), func(_ inputs, ws []*kernels.Weight) {
		for _, w := range ws {
			swap(w)
		}
	})
	if err != nil {
		return err
	}
	defer o.close()
	o.lookup = swap
	original, err := o.probabilities(nil)
	if err != nil {
		return err
	}
	for i, one := range all {
		if err := ctx.Err(); err != nil {
			return err
		}
		if c.o.Probed != nil {
			c.o.Probed(i, len(all))
		}
		one.loss = make([]float64, len(choices))
		if float64(one.t.rows*one.t.cols) < smallPart*float64(elements) {
			for k, bits := range choices {
				one.loss[k] = math.Pow(2, float64(-2*bits)) * 1e6 // any that prefers the most bits
			}
			continue
		}
		errors, packed, err := c.packEach(one.t)
		if err != nil {
			return err
		}
		in, weights[one.t] = one.t, packed.asWeight()
		divergence := 0.0
		_, err = o.probabilities(func(i int, logits []float32) {
			divergence += original[i].divergence(logits)
		})
		for _, part := range packed.parts() {
			cpu.Unmap(part)
		}
		delete(weights, one.t)
		if in = nil; err != nil {
			return err
		}
		at := slices.Index(choices, probeBits)
		for k := range choices {
			one.loss[k] = max(divergence, 0) * errors[k] / max(errors[at], 1e-300)
		}
	}
	return nil
}

// probe returns the part of the text that matrices are probed with.
func (s *sampleText) probe() *sampleText {
	part := &sampleText{}
	step := max(1, len(s.sequences)*probeSequence/probeTokens)
	for i := 0; i < len(s.sequences) && part.tokens < probeTokens; i += step {
		ids := s.sequences[i]
		ids = ids[:min(len(ids), probeSequence, probeTokens-part.tokens)]
		part.sequences, part.tokens = append(part.sequences, ids), part.tokens+len(ids)
	}
	return part
}

// packEach returns the squared error of a matrix in each number of bits, and the matrix in
// probeBits, in memory that the caller must unmap.
func (c *conversion) packEach(t *tensor) (errors []float64, probed packing, err error) {
	rows := max(1, pieceElements/max(t.cols, 1))
	var pieces []piece
	for from := 0; from < t.rows; from += rows {
		pieces = append(pieces, piece{t, from, min(from+rows, t.rows)})
	}
	f := *t.format
	f.Bits = probeBits
	old := *t
	t.format = &f
	defer func() { t.format = old.format }()
	probed = packing{target: target{t: &tensor{name: t.name, format: &f, dtype: t.dtype}},
		weight: &kernels.Weight{Experts: 1, N: t.rows, K: t.cols},
		to: quantize.Packed{Codes: cpu.Map(t.rows * f.CodeBytes(t.cols)),
			Scales: cpu.Map(t.rows * f.ScaleBytes(t.cols, t.dtype)),
			Biases: cpu.Map(t.rows * f.ScaleBytes(t.cols, t.dtype))}}
	sums := make([][]float64, len(pieces))
	isa := cpu.Best()
	err = c.each(context.Background(), pieces, func(i int, s *scratch) error {
		p := pieces[i]
		data, err := c.reads.rows(t, p.from, p.to, s)
		if err != nil {
			return err
		}
		sums[i] = make([]float64, len(choices))
		for k, bits := range choices {
			g := f
			g.Bits = bits
			n := len(data) / t.dtype.Size()
			to := quantize.Packed{Codes: make([]byte, g.CodeBytes(n)),
				Scales: make([]byte, g.ScaleBytes(n, t.dtype)),
				Biases: make([]byte, g.ScaleBytes(n, t.dtype))}
			g.Pack(isa, to, data, t.dtype)
			sums[i][k] = squaredError(g, to, data, t)
			if bits == probeBits {
				copy(probed.to.Codes[p.from*g.CodeBytes(t.cols):], to.Codes)
				copy(probed.to.Scales[p.from*g.ScaleBytes(t.cols, t.dtype):], to.Scales)
				copy(probed.to.Biases[p.from*g.ScaleBytes(t.cols, t.dtype):], to.Biases)
			}
		}
		return nil
	})
	errors = make([]float64, len(choices))
	for _, one := range sums {
		for k := range one {
			errors[k] += one[k]
		}
	}
	return errors, probed, err
}

// squaredError returns the sum of the squared errors of packed rows of t.
func squaredError(f quantize.Format, packed quantize.Packed, data []byte, t *tensor) (sum float64) {
	rows := len(data) / t.dtype.Size() / t.cols
	as := packing{target: target{t: &tensor{format: &f, dtype: t.dtype}}, to: packed,
		weight: &kernels.Weight{Experts: 1, N: rows, K: t.cols}}
	w := as.asWeight()
	values, row := make([]float32, t.cols), make([]float32, t.cols)
	for i := range rows {
		decode(values, data[i*t.cols*t.dtype.Size():], t.dtype)
		w.DequantizeRow(row, i)
		for j, v := range values {
			off := float64(v) - float64(row[j])
			sum += float64(off * off)
		}
	}
	return sum
}

// probabilities are the log-probabilities of the likeliest tokens of a position.
type probabilities struct {
	tokens []int32
	logs   []float64
}

// probabilities runs the text and returns the probabilities of all positions. If read is not nil,
// it calls that instead.
func (o *observed) probabilities(read func(i int, logits []float32)) (all []probabilities,
	err error) {
	if read == nil {
		read = func(_ int, logits []float32) { all = append(all, likeliestOf(logits)) }
	}
	return all, o.scores(read)
}

// logSum returns the logarithm of the sum of the exponentials.
func logSum(logits []float32) float64 {
	most, sum := float64(slices.Max(logits)), 0.0
	for _, x := range logits {
		sum += math.Exp(float64(x) - most)
	}
	return most + math.Log(sum)
}

func likeliestOf(logits []float32) (p probabilities) {
	p.tokens = make([]int32, len(logits))
	for i := range logits {
		p.tokens[i] = int32(i)
	}
	slices.SortFunc(p.tokens, func(a, b int32) int {
		return cmp.Or(cmp.Compare(logits[b], logits[a]), cmp.Compare(a, b))
	})
	p.tokens = slices.Clone(p.tokens[:min(likeliest, len(p.tokens))])
	all := logSum(logits)
	for _, token := range p.tokens {
		p.logs = append(p.logs, float64(logits[token])-all)
	}
	return p
}

// divergence returns that of the probabilities of logits from p.
func (p probabilities) divergence(logits []float32) (sum float64) {
	all := logSum(logits)
	mine, other := 0.0, 0.0 // the sums of the likeliest
	for i, token := range p.tokens {
		a, b := p.logs[i], float64(logits[token])-all
		sum += float64(math.Exp(a) * (a - b))
		mine += math.Exp(a)
		other += math.Exp(b)
	}
	if a, b := 1-mine, 1-other; a > 1e-9 {
		sum += float64(a * (math.Log(a) - math.Log(max(b, 1e-9))))
	}
	return sum
}

// spend chooses the bits of matrices that have the fewest, within so many more bytes. A step goes
// to the bits with the largest gain per byte, so that a matrix does not stay where only several
// bits more would help it.
func spend(all []*candidate, budget int64) {
	for {
		var best *candidate
		bits, cost, gain := 0, int64(0), 0.0
		for _, one := range all {
			from := slices.Index(choices, one.bits)
			for k := from + 1; k < len(choices); k++ {
				bytes := int64(one.t.rows) * int64(one.t.cols) *
					int64(choices[k]-one.bits) / 8
				per := (one.loss[from] - one.loss[k]) / float64(max(bytes, 1))
				if bytes <= budget && per > gain {
					best, bits, cost, gain = one, choices[k], bytes, per
				}
			}
		}
		if best == nil {
			return
		}
		best.bits = bits
		budget -= cost
	}
}
