//go:build cgo

package quantize

/*
#cgo CFLAGS: -O3 -std=c11 -g0
#cgo LDFLAGS: -lm
#cgo noescape headroom_quantize_affine
#cgo nocallback headroom_quantize_affine
#cgo noescape headroom_quantize_floats
#cgo nocallback headroom_quantize_floats
#cgo noescape headroom_add_outer
#cgo nocallback headroom_add_outer
#include <stdint.h>
void headroom_quantize_affine(int isa, const void *data, int dtype, int bits, int group,
    int64_t groups, uint8_t *codes, void *scales, void *biases);
void headroom_quantize_floats(int isa, const void *data, int dtype, int bits, int group,
    int64_t groups, uint8_t *codes, uint8_t *scales);
void headroom_add_outer(int isa, double *c, int64_t ldc, const double *a, int64_t lda,
    const double *b, int64_t ldb, int64_t m, int64_t n, int64_t depth, double sign);
*/
import "C"

import (
	"unsafe"

	"headroom/kernels"
	"headroom/kernels/cpu"
)

func (f Format) native(isa cpu.ISA, to Packed, data []byte, dtype kernels.DType, groups int) {
	codes, scales := (*C.uint8_t)(unsafe.Pointer(&to.Codes[0])), unsafe.Pointer(&to.Scales[0])
	from := unsafe.Pointer(&data[0])
	if f.Mode == kernels.Affine {
		C.headroom_quantize_affine(C.int(isa), from, C.int(dtype), C.int(f.Bits), C.int(f.Group),
			C.int64_t(groups), codes, scales, unsafe.Pointer(&to.Biases[0]))
		return
	}
	C.headroom_quantize_floats(C.int(isa), from, C.int(dtype), C.int(f.Bits), C.int(f.Group),
		C.int64_t(groups), codes, (*C.uint8_t)(scales))
}

func nativeOuter(isa cpu.ISA, c, a, b matrix, rows, cols, depth int, sign float64) {
	C.headroom_add_outer(C.int(isa), (*C.double)(&c.data[0]), C.int64_t(c.stride),
		(*C.double)(&a.data[0]), C.int64_t(a.stride), (*C.double)(&b.data[0]), C.int64_t(b.stride),
		C.int64_t(rows), C.int64_t(cols), C.int64_t(depth), C.double(sign))
}
