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
)

// Route chooses K experts for each token. Weights are the K largest probabilities of a softmax over
// all experts, in descending order, the lower expert first among equals. With Normalize they are
// divided by their sum. Then Scale, contiguous float32 [1, E], multiplies the weight of each chosen
// expert by its own factor, or is none (Gemma 4).
//
// Logits are float32 [M, E] with E up to MaxExperts; IDs int32 and Weights float32 are contiguous
// [M, K] with K up to MaxChosen and E. IDs index weights, so they are valid for all logits, even
// for NaN.
type Route struct {
	Logits    kernels.Tensor
	K         int
	Normalize bool
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
	if e > MaxExperts || o.K < 1 || o.K > min(e, MaxChosen) {
		err = errors.Join(err, fmt.Errorf("k: got %d of %d experts, expected 1 to %d of at most %d",
			o.K, e, MaxChosen, MaxExperts))
	}
	if !o.IDs.Contiguous() || !o.Weights.Contiguous() {
		err = errors.Join(err, errors.New(
			"ids, weights: got gaps between rows, expected contiguous tensors"))
	}
	return err
}

// Reference implements kernels.Op.
func (o *Route) Reference() { o.rows(0, o.Logits.Rows) }

// rows is the specification, and builds without cgo run it.
func (o *Route) rows(from, to int) {
	allIDs, allWeights := o.IDs.Int32s(), o.Weights.Float32s()
	var space [MaxExperts]float32
	for r := from; r < to; r++ {
		logits, p := o.Logits.Row(r), space[:o.Logits.Cols]
		ids, weights := allIDs[r*o.K:][:o.K], allWeights[r*o.K:][:o.K]
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
		var chosen float32
		for j := range ids {
			best := 0
			for i, v := range p {
				if v > p[best] {
					best = i
				}
			}
			ids[j], weights[j] = int32(best), p[best]
			chosen += p[best]
			p[best] = -1 // below every probability: not chosen again
		}
		if o.Normalize {
			for j := range weights {
				weights[j] /= chosen
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
	}{{1, 8, 2, true, false}, {5, 20, 3, false, false}, {7, 100, 16, true, false},
		{1, 256, 8, true, false}, {512, 256, 8, true, false}, {64, 512, 10, true, false},
		{9, 128, 8, true, true}} {
		name := fmt.Sprintf("route_f32_m%d_e%d_k%d_normalize_%t", s.rows, s.experts, s.k,
			s.normalize)
		if s.scaled {
			name += "_scaled"
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
					Normalize: s.normalize,
					IDs:       kernels.NewTensor(d, kernels.I32, s.rows, s.k),
					Weights:   kernels.NewTensor(d, kernels.F32, s.rows, s.k),
				}
				if s.scaled {
					o.Scale = kernels.RandomTensor(d, r, 1, s.experts, 1)
				}
				return o, []kernels.Tensor{o.IDs, o.Weights}
			},
		})
	}
	return cases
}
