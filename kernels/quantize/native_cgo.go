//go:build cgo

package quantize

/*
#cgo CFLAGS: -O3 -std=c11 -g0
#cgo LDFLAGS: -lm
#cgo noescape headroom_quantize_affine
#cgo nocallback headroom_quantize_affine
#cgo noescape headroom_quantize_floats
#cgo nocallback headroom_quantize_floats
#include <stdint.h>
void headroom_quantize_affine(int isa, const void *data, int dtype, int bits, int group,
    int64_t groups, uint8_t *codes, void *scales, void *biases);
void headroom_quantize_floats(int isa, const void *data, int dtype, int bits, int group,
    int64_t groups, uint8_t *codes, uint8_t *scales);
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
