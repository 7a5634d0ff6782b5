//go:build cgo

package norm

/*
#cgo CFLAGS: -O3 -std=c11 -g0
#cgo LDFLAGS: -lm
#cgo noescape headroom_rms_norm
#cgo nocallback headroom_rms_norm
#cgo noescape headroom_gated_rms_norm
#cgo nocallback headroom_gated_rms_norm
#cgo noescape headroom_layer_norm
#cgo nocallback headroom_layer_norm
#include <stddef.h>
#include <stdint.h>
void headroom_rms_norm(int isa, const float *x, ptrdiff_t x_stride, float *residual,
    ptrdiff_t residual_stride, const float *weight, float *out, ptrdiff_t out_stride, int64_t rows,
    int64_t cols, float eps);
void headroom_gated_rms_norm(int isa, const float *x, ptrdiff_t x_stride, const float *gate,
    ptrdiff_t gate_stride, const float *weight, float *out, ptrdiff_t out_stride, int64_t rows,
    int64_t cols, float eps);
void headroom_layer_norm(int isa, const float *x, ptrdiff_t x_stride, float *residual,
    ptrdiff_t residual_stride, const float *weight, const float *bias, float *out,
    ptrdiff_t out_stride, int64_t rows, int64_t cols, float eps);
*/
import "C"

import (
	"headroom/kernels"
	"headroom/kernels/cpu"
)

func floats(t kernels.Tensor) *C.float { return (*C.float)(t.Ptr()) }

func (o *RMSNorm) native(isa cpu.ISA, from, to int) {
	x, out := o.X.RowRange(from, to), o.Out.RowRange(from, to)
	var residual *C.float
	if !o.Residual.IsNone() {
		residual = floats(o.Residual.RowRange(from, to))
	}
	C.headroom_rms_norm(C.int(isa), floats(x), C.ptrdiff_t(x.Stride), residual,
		C.ptrdiff_t(o.Residual.Stride), floats(o.Weight),
		floats(out), C.ptrdiff_t(out.Stride), C.int64_t(to-from), C.int64_t(x.Cols), C.float(o.Eps))
}

func (o *GatedRMSNorm) native(isa cpu.ISA, from, to int) {
	x, gate, out := o.X.RowRange(from, to), o.Gate.RowRange(from, to), o.Out.RowRange(from, to)
	C.headroom_gated_rms_norm(C.int(isa), floats(x), C.ptrdiff_t(x.Stride), floats(gate),
		C.ptrdiff_t(gate.Stride), floats(o.Weight),
		floats(out), C.ptrdiff_t(out.Stride), C.int64_t(to-from), C.int64_t(x.Cols), C.float(o.Eps))
}

func (o *LayerNorm) native(isa cpu.ISA, from, to int) {
	x, out := o.X.RowRange(from, to), o.Out.RowRange(from, to)
	var residual, bias *C.float
	if !o.Residual.IsNone() {
		residual = floats(o.Residual.RowRange(from, to))
	}
	if !o.Bias.IsNone() {
		bias = floats(o.Bias)
	}
	C.headroom_layer_norm(C.int(isa), floats(x), C.ptrdiff_t(x.Stride), residual,
		C.ptrdiff_t(o.Residual.Stride), floats(o.Weight), bias, floats(out),
		C.ptrdiff_t(out.Stride), C.int64_t(to-from), C.int64_t(x.Cols), C.float(o.Eps))
}
