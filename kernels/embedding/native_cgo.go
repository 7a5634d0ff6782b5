//go:build cgo

package embedding

/*
#cgo CFLAGS: -O3 -std=c11 -g0
#cgo LDFLAGS: -lm
#cgo noescape headroom_embedding_row
#cgo nocallback headroom_embedding_row
#include <stdint.h>
void headroom_embedding_row(int isa, const void *data, const void *scales, const void *biases,
    int dtype, int mode, int bits, int group, int64_t k, float factor, float *out);
*/
import "C"

import (
	"unsafe"

	"headroom/kernels/cpu"
)

func (o *Lookup) native(isa cpu.ISA, row, token int) {
	w, dtype := o.W, o.W.Data.DType
	var scales, biases unsafe.Pointer
	if w.Bits > 0 {
		dtype = w.Scales.DType
		scales = w.Scales.RowRange(token, token+1).Ptr()
	}
	if !w.Biases.IsNone() {
		biases = w.Biases.RowRange(token, token+1).Ptr()
	}
	C.headroom_embedding_row(C.int(isa), w.Data.RowRange(token, token+1).Ptr(), scales, biases,
		C.int(dtype), C.int(w.Mode),
		C.int(w.Bits), C.int(w.Group), C.int64_t(w.K), C.float(o.scale()),
		(*C.float)(o.Out.RowRange(row, row+1).Ptr()))
}
