//go:build cgo

package recurrent

/*
#cgo CFLAGS: -I${SRCDIR}/../common -O3 -std=c11 -g0
#cgo LDFLAGS: -lm
#cgo noescape headroom_conv
#cgo nocallback headroom_conv
#cgo noescape headroom_gated_delta_run
#cgo nocallback headroom_gated_delta_run
#include "recurrent.h"
*/
import "C"

import (
	"headroom/kernels"
	"headroom/kernels/cpu"
)

func floats(t kernels.Tensor) *C.float { return (*C.float)(t.Ptr()) }

// kept is the slot of span s.
func kept(state kernels.Tensor, s kernels.Span) C.headroom_kept {
	return C.headroom_kept{form: C.int(state.DType), slot: state.RowRange(int(s.Slot), int(s.Slot)+1).Ptr()}
}

// native does channels [from, to) of span s.
func (o *Conv) native(isa cpu.ISA, s kernels.Span, from, to int) {
	x, out := o.X.RowRange(s.Row, s.Row+s.Rows), o.Out.RowRange(s.Row, s.Row+s.Rows)
	C.headroom_conv(C.int(isa), floats(x), C.ptrdiff_t(x.Stride), floats(o.Weight), C.int(o.Weight.Cols), kept(o.State, s),
		C.int64_t(x.Cols), flag(s.Pos == 0), floats(out), C.ptrdiff_t(out.Stride), C.int64_t(s.Rows),
		C.int64_t(from), C.int64_t(to))
}

func flag(b bool) C.int {
	if b {
		return 1
	}
	return 0
}

// nativeUnits does units [from, to) of span s.
func (o *GatedDelta) nativeUnits(c *cpu.Context, worker int, s kernels.Span, from, to int) {
	qkv, a, b := o.QKV.RowRange(s.Row, s.Row+s.Rows), o.A.RowRange(s.Row, s.Row+s.Rows), o.B.RowRange(s.Row, s.Row+s.Rows)
	out := o.Out.RowRange(s.Row, s.Row+s.Rows)
	C.headroom_gated_delta_run(C.int(c.ISA),
		C.headroom_gated_delta{hk: C.int64_t(o.Hk), hv: C.int64_t(o.Hv), dk: C.int64_t(o.Dk), dv: C.int64_t(o.Dv)},
		C.headroom_gated_delta_inputs{qkv: floats(qkv), a: floats(a), b: floats(b), a_log: floats(o.ALog), dt_bias: floats(o.DtBias),
			qkv_stride: C.ptrdiff_t(qkv.Stride), a_stride: C.ptrdiff_t(a.Stride), b_stride: C.ptrdiff_t(b.Stride), tokens: C.int64_t(s.Rows)},
		kept(o.State, s), flag(s.Pos == 0), floats(out), C.ptrdiff_t(out.Stride), windowRows, C.int64_t(o.parts), C.int64_t(from), C.int64_t(to),
		(*C.float)(cpu.Ptr(c.Local(worker, o.scratchBytes()))))
}
