//go:build cgo

package ceiling

/*
#cgo CFLAGS: -O3 -std=c11 -g0
#cgo LDFLAGS: -lm
#cgo noescape headroom_read
#cgo nocallback headroom_read
#cgo noescape headroom_int8_ops
#cgo nocallback headroom_int8_ops
#cgo noescape headroom_float32_ops
#cgo nocallback headroom_float32_ops
#include <stddef.h>
#include <stdint.h>
void headroom_read(int isa, const float *x, int64_t rows, int64_t cols, float *sums,
                   ptrdiff_t stride, int streams, int lines, int64_t prefetch);
void headroom_int8_ops(int isa, const uint8_t *codes, const int8_t *activations, const void *zeros,
                       int64_t blocks, int32_t *sum);
void headroom_float32_ops(int isa, const float *x, const float *y, const void *zeros,
                          int64_t blocks, float *sum);
*/
import "C"

import (
	"unsafe"

	"headroom/kernels/cpu"
)

func (o *Read) native(isa cpu.ISA, from, to int) {
	x, sums, p := o.X.RowRange(from, to), o.Sums.RowRange(from, to), Patterns[o.Pattern]
	C.headroom_read(C.int(isa), (*C.float)(x.Ptr()), C.int64_t(x.Rows), C.int64_t(x.Cols),
		(*C.float)(sums.Ptr()), C.ptrdiff_t(sums.Stride),
		C.int(p.Streams), C.int(p.Lines), C.int64_t(p.PrefetchBytes))
}

func (l *loop) native(isa cpu.ISA, worker int) {
	blocks := C.int64_t(l.blocks)
	if l.kind == int8s {
		C.headroom_int8_ops(C.int(isa), (*C.uint8_t)(&l.codes[0]), (*C.int8_t)(&l.bytes[0]),
			unsafe.Pointer(&l.zeros), blocks, (*C.int32_t)(&l.ints[worker]))
		return
	}
	C.headroom_float32_ops(C.int(isa), (*C.float)(&l.x[0]), (*C.float)(&l.y[0]),
		unsafe.Pointer(&l.zeros), blocks, (*C.float)(&l.floats[worker]))
}
