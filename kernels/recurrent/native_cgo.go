//go:build cgo

package recurrent

/*
#cgo CFLAGS: -O3 -std=c11 -g0
#cgo LDFLAGS: -lm
#cgo noescape headroom_conv
#cgo nocallback headroom_conv
#cgo noescape headroom_conv_update
#cgo nocallback headroom_conv_update
#cgo noescape headroom_gated_delta_run
#cgo nocallback headroom_gated_delta_run
#cgo noescape headroom_ssm_run
#cgo nocallback headroom_ssm_run
#include "recurrent.h"
*/
import "C"

import (
	"headroom/kernels"
	"headroom/kernels/cpu"
)

func floats(t kernels.Tensor) *C.float { return (*C.float)(t.Ptr()) }

// floatsOrNull returns null if t is none.
func floatsOrNull(t kernels.Tensor) *C.float {
	if t.IsNone() {
		return nil
	}
	return floats(t)
}

// slotOf returns the slot of span s.
func slotOf(state kernels.Tensor, s kernels.Span) C.headroom_state {
	return C.headroom_state{dtype: C.int(state.DType),
		slot: state.RowRange(int(s.Slot), int(s.Slot)+1).Ptr()}
}

// span returns s as a C struct.
func (o *Conv) span(s kernels.Span) C.headroom_conv_span {
	return C.headroom_conv_span{x: floats(o.X.RowRange(s.Row, s.Row+s.Rows)),
		weight: floats(o.Weight), bias: floatsOrNull(o.Bias),
		x_stride: C.ptrdiff_t(o.X.Stride), rows: C.int64_t(s.Rows),
		channels: C.int64_t(o.X.Cols), taps: C.int(o.Weight.Cols), start: flag(s.Pos == 0),
		linear: flag(o.Linear), state: slotOf(o.State, s)}
}

// native computes channels [from, to) of span s.
func (o *Conv) native(isa cpu.ISA, s kernels.Span, from, to int) {
	out := o.Out.RowRange(s.Row, s.Row+s.Rows)
	C.headroom_conv(C.int(isa), o.span(s), C.int64_t(from), C.int64_t(to), floats(out),
		C.ptrdiff_t(out.Stride))
}

// nativeUpdate updates the state of channels [from, to) to the state after span s. It computes no
// outputs.
func (o *Conv) nativeUpdate(isa cpu.ISA, s kernels.Span, from, to int) {
	C.headroom_conv_update(C.int(isa), o.span(s), C.int64_t(from), C.int64_t(to))
}

func flag(b bool) C.int {
	if b {
		return 1
	}
	return 0
}

// nativeUnits computes units [from, to) of span s.
func (o *GatedDelta) nativeUnits(c *cpu.Context, worker int, s kernels.Span, from, to int) {
	a, b := o.A.RowRange(s.Row, s.Row+s.Rows), o.B.RowRange(s.Row, s.Row+s.Rows)
	out := o.Out.RowRange(s.Row, s.Row+s.Rows)
	in := C.headroom_gated_delta_inputs{a: floats(a), b: floats(b), a_log: floats(o.ALog),
		dt_bias:  floats(o.DtBias),
		a_stride: C.ptrdiff_t(a.Stride), b_stride: C.ptrdiff_t(b.Stride)}
	if o.conv != nil {
		in.conv = o.conv.span(s)
	} else {
		in.conv = C.headroom_conv_span{x: floats(o.QKV.RowRange(s.Row, s.Row+s.Rows)),
			x_stride: C.ptrdiff_t(o.QKV.Stride), rows: C.int64_t(s.Rows), start: flag(s.Pos == 0)}
	}
	C.headroom_gated_delta_run(C.int(c.ISA),
		C.headroom_gated_delta{hk: C.int64_t(o.Hk), hv: C.int64_t(o.Hv), dk: C.int64_t(o.Dk),
			dv: C.int64_t(o.Dv), l2_eps: l2Eps},
		in, slotOf(o.State, s), floats(out), C.ptrdiff_t(out.Stride), windowRows,
		C.int64_t(o.parts),
		C.int64_t(o.partRows), C.int64_t(from), C.int64_t(to),
		(*C.float)(cpu.Ptr(c.Local(worker, o.scratchBytes()))))
}

// nativeHeads computes heads [from, to) of span s.
func (o *SSM) nativeHeads(isa cpu.ISA, s kernels.Span, from, to int) {
	x, dt := o.X.RowRange(s.Row, s.Row+s.Rows), o.Dt.RowRange(s.Row, s.Row+s.Rows)
	out := o.Out.RowRange(s.Row, s.Row+s.Rows)
	C.headroom_ssm_run(C.int(isa),
		C.headroom_ssm{heads: C.int64_t(o.Heads), groups: C.int64_t(o.Groups),
			dim: C.int64_t(o.Dim), n: C.int64_t(o.N), dt_min: C.float(o.DtMin),
			dt_max: C.float(o.DtMax)},
		C.headroom_ssm_span{x: floats(x), dt: floats(dt), a_log: floats(o.ALog),
			dt_bias: floats(o.DtBias), d: floats(o.D), x_stride: C.ptrdiff_t(x.Stride),
			dt_stride: C.ptrdiff_t(dt.Stride), rows: C.int64_t(s.Rows), start: flag(s.Pos == 0)},
		slotOf(o.State, s), floats(out), C.ptrdiff_t(out.Stride), C.int64_t(from), C.int64_t(to))
}
