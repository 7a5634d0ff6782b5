//go:build cgo

package bandwidth

/*
#cgo CFLAGS: -I${SRCDIR}/../common -O3 -std=c11 -g0
#cgo LDFLAGS: -lm
#cgo noescape headroom_read
#cgo nocallback headroom_read
#include <stddef.h>
#include <stdint.h>
void headroom_read(int isa, const float *x, int64_t rows, int64_t cols, float *sums, ptrdiff_t stride, int streams, int lines, int64_t ahead);
*/
import "C"

import "headroom/kernels/cpu"

func (o *Read) native(isa cpu.ISA, from, to int) {
	x, sums, way := o.X.RowRange(from, to), o.Sums.RowRange(from, to), Ways[o.Way]
	C.headroom_read(C.int(isa), (*C.float)(x.Ptr()), C.int64_t(x.Rows), C.int64_t(x.Cols),
		(*C.float)(sums.Ptr()), C.ptrdiff_t(sums.Stride),
		C.int(way.Streams), C.int(way.Lines), C.int64_t(way.Ahead))
}
