//go:build cgo

package arithmetic

/*
#cgo CFLAGS: -I${SRCDIR}/../common -O3 -std=c11 -g0
#cgo LDFLAGS: -lm
#cgo noescape headroom_arithmetic_int8
#cgo nocallback headroom_arithmetic_int8
#cgo noescape headroom_arithmetic_float32
#cgo nocallback headroom_arithmetic_float32
#include <stdint.h>
void headroom_arithmetic_int8(int isa, const uint8_t *codes, const int8_t *activations, const void *zeros, int64_t blocks, int32_t *sum);
void headroom_arithmetic_float32(int isa, const float *x, const float *y, const void *zeros, int64_t blocks, float *sum);
*/
import "C"

import (
	"unsafe"

	"headroom/kernels/cpu"
)

func (l *loop) native(isa cpu.ISA, worker int) {
	if l.kind == int8s {
		C.headroom_arithmetic_int8(C.int(isa), (*C.uint8_t)(&l.codes[0]), (*C.int8_t)(&l.bytes[0]),
			unsafe.Pointer(&l.zeros), C.int64_t(l.blocks), (*C.int32_t)(&l.ints[worker]))
		return
	}
	C.headroom_arithmetic_float32(C.int(isa), (*C.float)(&l.x[0]), (*C.float)(&l.y[0]),
		unsafe.Pointer(&l.zeros), C.int64_t(l.blocks), (*C.float)(&l.floats[worker]))
}
