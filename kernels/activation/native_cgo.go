//go:build cgo

package activation

/*
#cgo CFLAGS: -O3 -std=c11 -g0
#cgo noescape headroom_binary
#cgo nocallback headroom_binary
#cgo noescape headroom_soft_cap
#cgo nocallback headroom_soft_cap
#include <stddef.h>
#include <stdint.h>
void headroom_binary(int isa, int function, const float *x, ptrdiff_t x_stride, const float *y,
    ptrdiff_t y_stride, float *out, ptrdiff_t out_stride, int64_t cols, int64_t block_cols,
    int64_t from, int64_t to);
void headroom_soft_cap(int isa, const float *x, ptrdiff_t x_stride, float *out,
    ptrdiff_t out_stride, float cap, int64_t cols, int64_t block_cols, int64_t from, int64_t to);
*/
import "C"

import (
	"headroom/kernels"
	"headroom/kernels/cpu"
)

func (f function) native(isa cpu.ISA, x, y, out kernels.Tensor, from, to int) {
	C.headroom_binary(C.int(isa), C.int(f), (*C.float)(x.Ptr()), C.ptrdiff_t(x.Stride),
		(*C.float)(y.Ptr()), C.ptrdiff_t(y.Stride),
		(*C.float)(out.Ptr()), C.ptrdiff_t(out.Stride), C.int64_t(out.Cols), blockCols,
		C.int64_t(from), C.int64_t(to))
}

func (o *SoftCap) native(isa cpu.ISA, from, to int) {
	C.headroom_soft_cap(C.int(isa), (*C.float)(o.X.Ptr()), C.ptrdiff_t(o.X.Stride),
		(*C.float)(o.Out.Ptr()), C.ptrdiff_t(o.Out.Stride), C.float(o.Cap), C.int64_t(o.Out.Cols),
		blockCols, C.int64_t(from), C.int64_t(to))
}
