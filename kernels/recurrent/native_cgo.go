//go:build cgo

package recurrent

/*
#cgo CFLAGS: -I${SRCDIR}/../common -O3 -std=c11 -g0
#cgo LDFLAGS: -lm
#cgo noescape headroom_conv
#cgo nocallback headroom_conv
#cgo noescape headroom_gated_delta_prepare
#cgo nocallback headroom_gated_delta_prepare
#cgo noescape headroom_gated_delta_update
#cgo nocallback headroom_gated_delta_update
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

func (o *GatedDelta) shape() C.headroom_gated_delta {
	w := &o.window
	return C.headroom_gated_delta{hk: C.int64_t(o.Hk), hv: C.int64_t(o.Hv), dk: C.int64_t(o.Dk), dv: C.int64_t(o.Dv),
		padded: C.int64_t(w.padded), tokens: C.int64_t(w.to - w.from), scratch: (*C.float)(cpu.Ptr(w.scratch))}
}

// nativePrepare does tokens [from, to) of the window.
func (o *GatedDelta) nativePrepare(isa cpu.ISA, from, to int) {
	first, end := o.window.from+from, o.window.from+to
	qkv, a, b := o.QKV.RowRange(first, end), o.A.RowRange(first, end), o.B.RowRange(first, end)
	C.headroom_gated_delta_prepare(C.int(isa), o.shape(), floats(qkv), C.ptrdiff_t(qkv.Stride), floats(a), C.ptrdiff_t(a.Stride),
		floats(b), C.ptrdiff_t(b.Stride), floats(o.ALog), floats(o.DtBias), C.int64_t(from), C.int64_t(to))
}

// nativeUpdate does units [from, to) of span s on rows [row, end) of the batch; start means that its sequence starts there.
func (o *GatedDelta) nativeUpdate(isa cpu.ISA, s kernels.Span, row, end int, start bool, from, to int) {
	v := o.QKV.RowRange(row, end).Columns(2*o.Hk*o.Dk, o.QKV.Cols)
	out := o.Out.RowRange(row, end)
	C.headroom_gated_delta_update(C.int(isa), o.shape(), floats(v), C.ptrdiff_t(v.Stride), kept(o.State, s), flag(start),
		floats(out), C.ptrdiff_t(out.Stride), C.int64_t(row-o.window.from), C.int64_t(end-o.window.from), unitRows,
		C.int64_t(from), C.int64_t(to))
}
