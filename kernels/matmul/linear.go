package matmul

// The product that most of a model's time goes into. Two phases, rounding and multiplying, with the threads meeting in
// between; the weights' rows are the units of work.

import (
	"errors"

	"headroom/kernels"
	"headroom/kernels/cpu"
)

// Linear is out = X Wᵀ for every part. Weights that share an input (q, k and v; gate and up) belong into one Linear: the input
// is rounded and the threads meet only once.
//
// X is float32 [M, K]; each W is one matrix [N, K], each Out float32 [M, N]. No Out may overlap X.
type Linear struct {
	X       kernels.Tensor
	Parts   []Part
	Prefill Prefill // rows of X

	in input
}

// Name implements kernels.Op.
func (o *Linear) Name() string { return "linear" }

// Check implements kernels.Op.
func (o *Linear) Check() error {
	return errors.Join(
		kernels.CheckShape("x", o.X, kernels.F32, -1, -1),
		checkParts(o.Parts, 1, o.X.Cols, o.X.Rows),
		o.Prefill.check(o.X.Rows))
}

// Reference implements kernels.Op.
func (o *Linear) Reference() {
	in := input{x: o.X}
	for _, p := range o.Parts {
		in.floatRows(&p, 0, 0, p.W.N, rows{count: o.X.Rows, perInput: 1})
	}
}

// The phases of an operator's CPU work.
const (
	phaseRound    = iota // rows of X: to 8 bits
	phasePack            // blocks of packRows rows
	phaseMultiply        // blocks of rows of the weights
)

// CPU implements kernels.Op.
func (o *Linear) CPU(c *cpu.Context) {
	if o.X.Rows == 0 {
		return
	}
	size := o.in.plan(c, o.X, o.Parts)
	size += o.in.planPacked(c, o.Parts)
	o.in.scratch = c.Shared(size)
	if o.in.rounded {
		c.Parallel(o, phaseRound, o.X.Rows, roundGrain(o.X.Cols))
	}
	if o.in.packing.unit > 0 {
		c.Parallel(o, phasePack, (o.X.Rows+packRows-1)/packRows, 1)
	}
	n := blocks(o.Parts)
	c.Parallel(o, phaseMultiply, n, grain(c.Threads, n, blockRows*o.X.Cols, o.X.Rows))
}

// CPURange implements cpu.Task.
func (o *Linear) CPURange(c *cpu.Context, phase, worker, from, to int) {
	if phase == phaseRound {
		o.in.round(c, from, to)
		return
	}
	if phase == phasePack {
		o.in.nativePack(from, to)
		return
	}
	eachPart(o.Parts, from, to, func(p *Part, from, to int) {
		o.in.multiply(c, worker, p, 0, from, to, rows{count: o.X.Rows, perInput: 1})
	})
}
