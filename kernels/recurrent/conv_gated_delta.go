package recurrent

// The convolution and the recurrence of GatedDeltaNet as one operator. On the CPU the intermediate
// result never leaves a core's cache.

import (
	"headroom/kernels"
	"headroom/kernels/cpu"
)

// ConvGatedDelta is a Conv over X followed by a GatedDelta whose QKV is the convolution's output.
// It gives the same bits as the two operators in sequence.
//
// X, Weight and ConvState are operands of Conv, and all others operands of GatedDelta. Rounds keep
// the states of both. ConvOut is scratch memory for the convolution's output: float32 with the
// shape of X, undefined afterwards. It must not overlap any other operand.
type ConvGatedDelta struct {
	X         kernels.Tensor
	Weight    kernels.Tensor
	ConvState kernels.Tensor
	A, B      kernels.Tensor
	ALog      kernels.Tensor
	DtBias    kernels.Tensor
	State     kernels.Tensor
	Spans     []kernels.Span
	Rounds    []kernels.Round
	ConvOut   kernels.Tensor
	Out       kernels.Tensor

	Hk, Hv, Dk, Dv int

	conv  Conv
	delta GatedDelta
}

// Name implements kernels.Op.
func (o *ConvGatedDelta) Name() string { return "conv_gated_delta" }

// parts returns the two operators, connected by ConvOut.
func (o *ConvGatedDelta) parts() (*Conv, *GatedDelta) {
	o.conv = Conv{X: o.X, Weight: o.Weight, State: o.ConvState, Spans: o.Spans,
		Rounds: o.Rounds, Out: o.ConvOut}
	o.delta = GatedDelta{QKV: o.ConvOut, A: o.A, B: o.B, ALog: o.ALog, DtBias: o.DtBias,
		State: o.State, Spans: o.Spans, Rounds: o.Rounds, Out: o.Out,
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
	if keepsAny(o.Rounds) {
		inRounds(&o.Spans, &o.Rounds, o.Reference, o.ConvState, o.State)
		return
	}
	conv, delta := o.parts()
	conv.Reference()
	delta.Reference()
}

// CPU implements kernels.Op.
func (o *ConvGatedDelta) CPU(c *cpu.Context) {
	if keepsAny(o.Rounds) {
		inRounds(&o.Spans, &o.Rounds, func() { o.CPU(c) }, o.ConvState, o.State)
		return
	}
	conv, delta := o.parts()
	if c.ISA == cpu.Generic || !o.headsApart() {
		conv.CPU(c)
	} else {
		delta.conv = conv
	}
	delta.CPU(c)
}

// headsApart reports whether no scale of the convolution's state covers channels of two heads, or
// of both q and k. Different threads can then round different heads.
func (o *ConvGatedDelta) headsApart() bool {
	return o.ConvState.DType != kernels.I8 || o.Dk%convGroup == 0 && o.Dv%convGroup == 0
}
