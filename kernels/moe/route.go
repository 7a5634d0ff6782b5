package moe

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"headroom/kernels"
	"headroom/kernels/cpu"
)

// Limits of Route, whose probabilities and choices are on the stack.
const (
	MaxExperts = 512
	MaxChosen  = 16
	MaxGroups  = 32
)

// Route chooses K experts for each token: those with the largest scores, in descending order, the
// lower expert first among equals. The scores are a softmax over all experts, and are also the
// weights. With Sigmoid, the weights are the sigmoids of the logits (LFM2). With Bias, contiguous
// float32 [1, E] or none, a score is a weight plus the element of Bias for its expert.
//
// With Groups, the experts are that many groups of equal size in order, and only those of the
// TopGroups groups with the largest scores are chosen, the lower group first among equals. The
// score of a group is the largest of its experts' scores (DeepSeek-V2), or with Sigmoid the sum of
// its two largest (DeepSeek-V3).
//
// With Normalize the weights are divided by their sum plus Epsilon. Then Scale, contiguous float32
// [1, E], multiplies the weight of each chosen expert by its own factor, or is none (Gemma 4).
//
// Logits are float32 [M, E] with E up to MaxExperts; IDs int32 and Weights float32 are contiguous
// [M, K] with K up to MaxChosen and E. IDs index weights, so they are valid for all logits, even
// for NaN.
type Route struct {
	Logits    kernels.Tensor
	K         int
	Sigmoid   bool
	Bias      kernels.Tensor
	Groups    int // 0: none, else up to MaxGroups
	TopGroups int
	Normalize bool
	Epsilon   float32
	Scale     kernels.Tensor
	IDs       kernels.Tensor
	Weights   kernels.Tensor
}

// Name implements kernels.Op.
func (o *Route) Name() string { return "route" }

// Check implements kernels.Op.
func (o *Route) Check() error {
	m, e := o.Logits.Rows, o.Logits.Cols
	err := errors.Join(
		kernels.CheckShape("logits", o.Logits, kernels.F32, -1, -1),
		kernels.CheckShape("ids", o.IDs, kernels.I32, m, o.K),
		kernels.CheckShape("weights", o.Weights, kernels.F32, m, o.K))
	if !o.Scale.IsNone() {
		err = errors.Join(err, kernels.CheckShape("scale", o.Scale, kernels.F32, 1, e))
	}
	if !o.Bias.IsNone() {
		err = errors.Join(err, kernels.CheckShape("bias", o.Bias, kernels.F32, 1, e))
	}
	if e > MaxExperts || o.K < 1 || o.K > min(e, MaxChosen) {
		err = errors.Join(err, fmt.Errorf("k: got %d of %d experts, expected 1 to %d of at most %d",
			o.K, e, MaxChosen, MaxExperts))
	}
	if o.Groups != 0 || o.TopGroups != 0 {
		err = errors.Join(err, o.checkGroups(e))
	}
	if !o.IDs.Contiguous() || !o.Weights.Contiguous() {
		err = errors.Join(err, errors.New(
			"ids, weights: got gaps between rows, expected contiguous tensors"))
	}
	return err
}

// checkGroups checks the groups of e experts.
func (o *Route) checkGroups(e int) error {
	if o.Groups < 1 || o.Groups > MaxGroups || e%o.Groups != 0 {
		return fmt.Errorf("groups: got %d of %d experts, expected 1 to %d of equal size", o.Groups,
			e, MaxGroups)
	}
	size := e / o.Groups
	if o.Sigmoid && size < 2 {
		return fmt.Errorf("groups: got %d of one expert, expected two or more experts in each",
			o.Groups)
	}
	if o.TopGroups < 1 || o.TopGroups > o.Groups || o.K > o.TopGroups*size {
		return fmt.Errorf("top groups: got %d of %d with %d experts each, expected at least %d "+
			"experts to choose from", o.TopGroups, o.Groups, size, o.K)
	}
	return nil
}

// Reference implements kernels.Op.
func (o *Route) Reference() { o.rows(0, o.Logits.Rows) }

// rows is the specification, and builds without cgo run it.
func (o *Route) rows(from, to int) {
	allIDs, allWeights := o.IDs.Int32s(), o.Weights.Float32s()
	var weightSpace, scoreSpace [MaxExperts]float32
	p, scores := weightSpace[:o.Logits.Cols], scoreSpace[:o.Logits.Cols]
	for r := from; r < to; r++ {
		ids, weights := allIDs[r*o.K:][:o.K], allWeights[r*o.K:][:o.K]
		if o.Sigmoid {
			sigmoids(p, o.Logits.Row(r))
		} else {
			softmax(p, o.Logits.Row(r))
		}
		copy(scores, p)
		if o.Sigmoid || !o.Bias.IsNone() {
			o.correct(scores)
		}
		if o.Groups > 0 {
			o.limit(scores)
		}
		var chosen float32
		for j := range ids {
			best := 0
			for i, v := range scores {
				if v > scores[best] {
					best = i
				}
			}
			ids[j], weights[j] = int32(best), p[best]
			chosen += p[best]
			scores[best] = noScore
		}
		if o.Normalize {
			for j := range weights {
				weights[j] /= chosen + o.Epsilon
			}
		}
		if !o.Scale.IsNone() {
			scale := o.Scale.Row(0)
			for j, id := range ids {
				weights[j] *= scale[id]
			}
		}
	}
}

// Scores that are no number an expert usually has. route.c and route.metal repeat them.
const (
	leastScore = -1e38 // of an expert, also in place of NaN
	noScore    = -2e38 // of an expert that has been chosen, or is in no chosen group
)

// limit gives noScore to the experts outside the best TopGroups groups.
func (o *Route) limit(scores []float32) {
	size := len(scores) / o.Groups
	var space [MaxGroups]float32
	groups := space[:o.Groups]
	for g := range groups {
		groups[g] = o.groupScore(scores[g*size:][:size])
	}
	var chosen [MaxGroups]bool
	for range o.TopGroups {
		best := 0
		for g, v := range groups {
			if v > groups[best] {
				best = g
			}
		}
		chosen[best], groups[best] = true, -math.MaxFloat32
	}
	for i := range scores {
		if !chosen[i/size] {
			scores[i] = noScore
		}
	}
}

// groupScore returns the score of a group from those of its experts.
func (o *Route) groupScore(scores []float32) float32 {
	first, second := float32(noScore), float32(noScore)
	for _, v := range scores {
		switch {
		case v > first:
			first, second = v, first
		case v > second:
			second = v
		}
	}
	if o.Sigmoid {
		return first + second
	}
	return first
}

// softmax writes the probabilities of logits to p.
func softmax(p, logits []float32) {
	largest := float32(math.Inf(-1))
	for _, x := range logits {
		largest = max(largest, x)
	}
	var sum float64
	for i, x := range logits {
		p[i] = float32(math.Exp(float64(x - largest)))
		sum += float64(p[i])
	}
	for i := range p {
		p[i] = float32(float64(p[i]) / sum)
	}
}

// sigmoids writes the sigmoids of logits to p.
func sigmoids(p, logits []float32) {
	for i, x := range logits {
		p[i] = float32(1 / (1 + math.Exp(-float64(x))))
	}
}

// correct adds Bias, if there is one, to scores.
func (o *Route) correct(scores []float32) {
	for i := range scores {
		if !o.Bias.IsNone() {
			scores[i] += o.Bias.Row(0)[i]
		}
		if !(scores[i] > leastScore) {
			scores[i] = leastScore
		}
	}
}

// CPU implements kernels.Op: tokens are independent.
func (o *Route) CPU(c *cpu.Context) {
	c.Parallel(o, 0, o.Logits.Rows, 1+2048/max(o.Logits.Cols, 1))
}

// CPURange implements cpu.Task.
func (o *Route) CPURange(c *cpu.Context, _, _, from, to int) {
	if c.ISA == cpu.Generic {
		o.rows(from, to)
		return
	}
	o.native(c.ISA, from, to)
}

func routeCases() []kernels.Case {
	var cases []kernels.Case
	for _, s := range []struct {
		rows, experts, k  int
		normalize, scaled bool
		sigmoid, biased   bool
		groups, top       int
	}{
		{rows: 1, experts: 8, k: 2, normalize: true},
		{rows: 5, experts: 20, k: 3},
		{rows: 7, experts: 100, k: 16, normalize: true},
		{rows: 1, experts: 256, k: 8, normalize: true},
		{rows: 512, experts: 256, k: 8, normalize: true},
		{rows: 64, experts: 512, k: 10, normalize: true},
		{rows: 9, experts: 128, k: 8, normalize: true, scaled: true},
		{rows: 5, experts: 32, k: 4, normalize: true, sigmoid: true, biased: true},
		{rows: 7, experts: 40, k: 16, scaled: true, sigmoid: true},
		{rows: 3, experts: 512, k: 10, normalize: true, scaled: true, sigmoid: true, biased: true},
		{rows: 5, experts: 256, k: 8, normalize: true, scaled: true, sigmoid: true, biased: true,
			groups: 8, top: 4},
		{rows: 9, experts: 160, k: 6, scaled: true, groups: 8, top: 3},
		{rows: 4, experts: 60, k: 5, sigmoid: true, groups: 12, top: 1},
		{rows: 6, experts: 64, k: 6, normalize: true, biased: true},
	} {
		name := fmt.Sprintf("route_f32_m%d_e%d_k%d_normalize_%t", s.rows, s.experts, s.k,
			s.normalize)
		if s.scaled {
			name += "_scaled"
		}
		if s.sigmoid {
			name += "_sigmoid"
		}
		if s.biased {
			name += "_biased"
		}
		if s.groups > 0 {
			name += fmt.Sprintf("_groups%dof%d", s.top, s.groups)
		}
		cases = append(cases, kernels.Case{
			Name:   name,
			RelTol: 2e-6,
			Why: "v_exp is within 2e-7 and the sum of up to 512 probabilities is taken in 16 " +
				"float32 lanes, the reference is float64",
			Bytes: int64(4 * s.rows * (s.experts + 2*s.k)),
			New: func(d kernels.Device, r *rand.Rand) (kernels.Op, []kernels.Tensor) {
				o := &Route{
					Logits:    kernels.RandomTensor(d, r, s.rows, s.experts, 2),
					K:         s.k,
					Sigmoid:   s.sigmoid,
					Groups:    s.groups,
					TopGroups: s.top,
					Normalize: s.normalize,
					IDs:       kernels.NewTensor(d, kernels.I32, s.rows, s.k),
					Weights:   kernels.NewTensor(d, kernels.F32, s.rows, s.k),
				}
				if s.scaled {
					o.Scale = kernels.RandomTensor(d, r, 1, s.experts, 1)
				}
				if s.biased {
					o.Bias, o.Epsilon = kernels.RandomTensor(d, r, 1, s.experts, 0.3), 1e-2
				}
				return o, []kernels.Tensor{o.IDs, o.Weights}
			},
		})
	}
	return cases
}
