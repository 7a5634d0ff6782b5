//go:build cgo

package sampling

/*
#cgo CFLAGS: -O3 -std=c11 -g0
#cgo noescape headroom_argmax_block
#cgo nocallback headroom_argmax_block
#include <stdint.h>
int64_t headroom_argmax_block(int isa, const int32_t *x, int64_t n);
*/
import "C"

import (
	"unsafe"

	"headroom/kernels/cpu"
)

// nativeArgmaxBlock returns the start of the block of argmaxBlock logits that has the largest one,
// the first such block on ties. It returns -1 if all logits are -Inf, or if one is +Inf or NaN.
func nativeArgmaxBlock(isa cpu.ISA, logits []float32) int {
	return int(C.headroom_argmax_block(C.int(isa),
		(*C.int32_t)(unsafe.Pointer(unsafe.SliceData(logits))), C.int64_t(len(logits))))
}
