package matmul

import (
	"errors"
	"math"

	"headroom/kernels"
	"headroom/kernels/cpu"
)

// GateUp computes out = silu(X Gateᵀ) * (X Upᵀ) (Shazeer 2020, "GLU Variants Improve Transformer"),
// the first half of a gated feed-forward layer. With IDs each row chooses its matrices, as in
// Experts. Its bits are those of a Linear or Experts with both weights, followed by silu and the
// elementwise product. When a GPU decodes, it never stores the two products.
//
// X and IDs are as in Linear or Experts. Gate and Up have the same shape. Out and Temp are float32
// with the shape of that operator's output, and Temp is undefined afterwards. Neither may overlap X
// or each other.
type GateUp struct {
	X        kernels.Tensor
	IDs      kernels.Tensor // none, or int32 [M, k]
	Gate, Up *kernels.Weight
	Out      kernels.Tensor
	Temp     kernels.Tensor
	Prefill  Prefill // rows of X, or of IDs if there are any
	Split    bool    // as in Linear; no effect with IDs

	linear  Linear
	experts Experts
	parts   [2]Part
}

// Name implements kernels.Op.
func (o *GateUp) Name() string { return "gate_up" }

// products returns the operator that computes both products: the gate's in Temp, the other in Out.
func (o *GateUp) products() kernels.Op {
	o.parts = [2]Part{{W: o.Gate, Out: o.Temp}, {W: o.Up, Out: o.Out}}
	if o.IDs.IsNone() {
		o.linear = Linear{X: o.X, Parts: o.parts[:], Prefill: o.Prefill, Split: o.Split}
		return &o.linear
	}
	o.experts = Experts{X: o.X, IDs: o.IDs, Parts: o.parts[:], Prefill: o.Prefill}
	return &o.experts
}

// Check implements kernels.Op.
func (o *GateUp) Check() error {
	if o.Gate == nil || o.Up == nil {
		return errors.New("gate, up: got no weight")
	}
	return o.products().Check()
}

// Reference implements kernels.Op.
func (o *GateUp) Reference() {
	o.products().Reference()
	o.gateRows(0, o.Out.Rows*o.blocksPerRow())
}

// gateRows is the elementwise part in plain Go, for units of up to gateCols columns of a row.
func (o *GateUp) gateRows(from, to int) {
	blocks := o.blocksPerRow()
	for u := from; u < to; u++ {
		first := u % blocks * gateCols
		gate, out := o.Temp.Row(u / blocks)[first:], o.Out.Row(u / blocks)[first:]
		for i, g := range gate[:min(gateCols, len(gate))] {
			x := float64(g)
			out[i] = float32(x / (1 + math.Exp(-x)) * float64(out[i]))
		}
	}
}

const (
	gateCols  = 1024
	gateGrain = 16384 // elements: about 5 µs of work
)

func (o *GateUp) blocksPerRow() int { return (o.Out.Cols + gateCols - 1) / gateCols }

// CPU implements kernels.Op.
func (o *GateUp) CPU(c *cpu.Context) {
	if o.Out.Rows == 0 {
		return
	}
	o.products().CPU(c)
	c.Parallel(o, 0, o.Out.Rows*o.blocksPerRow(), max(1, gateGrain/min(o.Out.Cols, gateCols)))
}

// CPURange implements cpu.Task.
func (o *GateUp) CPURange(c *cpu.Context, _, _, from, to int) {
	if c.ISA == cpu.Generic {
		o.gateRows(from, to)
		return
	}
	o.nativeGate(c.ISA, from, to)
}

// TrafficBytes implements kernels.TrafficCounter.
func (o *GateUp) TrafficBytes() int64 {
	return o.products().(kernels.TrafficCounter).TrafficBytes()
}
