package recurrent

// GatedDeltaNet's convolution and recurrence as one operator: on the CPU what the one makes for the
// other never leaves a core's cache.

import (
	"headroom/kernels"
	"headroom/kernels/cpu"
)

// ConvGatedDelta is a Conv over X, whose output is the QKV of a GatedDelta. Its bits are those of
// the two, one after the other.
//
// X, Weight and ConvState are as Conv's are, and all else as GatedDelta's. ConvOut is float32 of
// X's shape and holds anything afterwards; it may overlap nothing else.
type ConvGatedDelta struct {
	X         kernels.Tensor
	Weight    kernels.Tensor
	ConvState kernels.Tensor
	A, B      kernels.Tensor
	ALog      kernels.Tensor
	DtBias    kernels.Tensor
	State     kernels.Tensor
	Spans     []kernels.Span
	ConvOut   kernels.Tensor
	Out       kernels.Tensor

	Hk, Hv, Dk, Dv int

	conv  Conv
	delta GatedDelta
}

// Name implements kernels.Op.
func (o *ConvGatedDelta) Name() string { return "conv_gated_delta" }

// parts are the two operators, with what is between them in ConvOut.
func (o *ConvGatedDelta) parts() (*Conv, *GatedDelta) {
	o.conv = Conv{X: o.X, Weight: o.Weight, State: o.ConvState, Spans: o.Spans, Out: o.ConvOut}
	o.delta = GatedDelta{QKV: o.ConvOut, A: o.A, B: o.B, ALog: o.ALog, DtBias: o.DtBias,
		State: o.State, Spans: o.Spans, Out: o.Out,
		Hk: o.Hk, Hv: o.Hv, Dk: o.Dk, Dv: o.Dv}
	return &o.conv, &o.delta
}

// Check implements kernels.Op.
func (o *ConvGatedDelta) Check() error {
	conv, delta := o.parts()
	if err := conv.Check(); err != nil {
		return err
	}
	return delta.Check()
}

// Reference implements kernels.Op.
func (o *ConvGatedDelta) Reference() {
	conv, delta := o.parts()
	conv.Reference()
	delta.Reference()
}

// CPU implements kernels.Op.
func (o *ConvGatedDelta) CPU(c *cpu.Context) {
	conv, delta := o.parts()
	if c.ISA == cpu.Generic || !o.headsApart() {
		conv.CPU(c)
	} else {
		delta.conv = conv
	}
	delta.CPU(c)
}

// headsApart tells whether no scale of the convolution's state is for channels of two heads, or of
// q and k: heads can then be rounded by different threads.
func (o *ConvGatedDelta) headsApart() bool {
	return o.ConvState.DType != kernels.I8 || o.Dk%convGroup == 0 && o.Dv%convGroup == 0
}
