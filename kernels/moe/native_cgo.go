//go:build cgo

package moe

/*
#cgo CFLAGS: -O3 -std=c11 -g0
#cgo noescape headroom_route
#cgo nocallback headroom_route
#cgo noescape headroom_clamped_swiglu
#cgo nocallback headroom_clamped_swiglu
#cgo noescape headroom_combine
#cgo nocallback headroom_combine
#include "route.h"
void headroom_clamped_swiglu(int isa, const float *gate, ptrdiff_t gate_stride, const float *up,
                             ptrdiff_t up_stride, const int32_t *ids, const float *gate_bias,
                             const float *up_bias, int64_t experts, float limit, float alpha,
                             float *out, ptrdiff_t out_stride, int64_t cols, int64_t block_cols,
                             int64_t from, int64_t to);
void headroom_combine(int isa, const float *experts, ptrdiff_t experts_stride,
                      const float *weights, int64_t k, const float *bias, const int32_t *ids,
                      int64_t biases, const float *shared, ptrdiff_t shared_stride,
                      const float *gate, ptrdiff_t gate_stride, float *out, ptrdiff_t out_stride,
                      int64_t cols, int64_t block_cols, int64_t from, int64_t to);
*/
import "C"

import (
	"headroom/kernels"
	"headroom/kernels/cpu"
)

// floats returns the address of t's first element, nil if t is none.
func floats(t kernels.Tensor) *C.float {
	if t.IsNone() {
		return nil
	}
	return (*C.float)(t.Ptr())
}

func (o *Route) native(isa cpu.ISA, from, to int) {
	logits := o.Logits.RowRange(from, to)
	C.headroom_route(C.int(isa), C.headroom_route_inputs{logits: floats(logits),
		bias: floats(o.Bias), scale: floats(o.Scale), logits_stride: C.ptrdiff_t(logits.Stride),
		experts: C.int64_t(logits.Cols), k: C.int64_t(o.K), groups: C.int64_t(o.Groups),
		top_groups: C.int64_t(o.TopGroups), sigmoid: flag(o.Sigmoid),
		normalize: flag(o.Normalize), epsilon: C.float(o.Epsilon)},
		(*C.int32_t)(o.IDs.RowRange(from, to).Ptr()), floats(o.Weights.RowRange(from, to)),
		C.int64_t(to-from))
}

func flag(b bool) C.int {
	if b {
		return 1
	}
	return 0
}

func ints(t kernels.Tensor) *C.int32_t {
	if t.IsNone() {
		return nil
	}
	return (*C.int32_t)(t.Ptr())
}

func (o *ClampedSwiGLU) native(isa cpu.ISA, from, to int) {
	C.headroom_clamped_swiglu(C.int(isa), floats(o.Gate), C.ptrdiff_t(o.Gate.Stride), floats(o.Up),
		C.ptrdiff_t(o.Up.Stride), ints(o.IDs), floats(o.GateBias), floats(o.UpBias),
		C.int64_t(o.GateBias.Rows), C.float(o.Limit), C.float(o.Alpha), floats(o.Out),
		C.ptrdiff_t(o.Out.Stride), C.int64_t(o.Out.Cols), swigluCols, C.int64_t(from),
		C.int64_t(to))
}

func (o *Combine) native(isa cpu.ISA, from, to int) {
	C.headroom_combine(C.int(isa), floats(o.Experts), C.ptrdiff_t(o.Experts.Stride),
		floats(o.Weights), C.int64_t(o.Weights.Cols),
		floats(o.Bias), ints(o.IDs), C.int64_t(o.Bias.Rows),
		floats(o.Shared), C.ptrdiff_t(o.Shared.Stride), floats(o.SharedGate),
		C.ptrdiff_t(o.SharedGate.Stride),
		floats(o.Out), C.ptrdiff_t(o.Out.Stride), C.int64_t(o.Out.Cols), combineCols,
		C.int64_t(from), C.int64_t(to))
}
