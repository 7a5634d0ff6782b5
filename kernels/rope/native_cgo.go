//go:build cgo

package rope

/*
#cgo CFLAGS: -O3 -std=c11 -g0
#cgo LDFLAGS: -lm
#cgo noescape headroom_norm_rope
#cgo nocallback headroom_norm_rope
#include "norm_rope.h"
*/
import "C"

import (
	"unsafe"

	"headroom/kernels"
	"headroom/kernels/cpu"
)

func ptr(t kernels.Tensor) *C.float { return (*C.float)(t.Ptr()) }

func (o *NormRope) native(isa cpu.ISA, s *kernels.Span, from, to int, scratch []float32) {
	shape := C.struct_norm_rope_shape{
		rows: C.int64_t(to - from), pos: C.int64_t(s.Pos + from),
		heads: C.int64_t(o.Heads), head_dim: C.int64_t(o.X.Cols), half: C.int64_t(o.InvFreq.Cols),
		x_stride: C.int64_t(o.X.Stride), out_stride: C.int64_t(o.Out.Stride),
		pos_step: C.int64_t(o.PosStep), pos_scales: C.int64_t(o.PosScale.Cols),
		eps: C.float(o.Eps), scale: C.float(o.scale()),
	}
	var weight, posScale *C.float
	if o.Interleaved {
		shape.interleaved = 1
	}
	if !o.Weight.IsNone() {
		weight = ptr(o.Weight)
	}
	if !o.PosScale.IsNone() {
		posScale = ptr(o.PosScale)
	}
	first, end := (s.Row+from)*o.Heads, (s.Row+to)*o.Heads
	C.headroom_norm_rope(C.int(isa), &shape, ptr(o.X.RowRange(first, end)), weight, ptr(o.InvFreq),
		posScale, ptr(o.Out.RowRange(first, end)),
		(*C.float)(unsafe.SliceData(scratch)))
}
