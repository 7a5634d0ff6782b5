//go:build cgo

package matmul

/*
#cgo CFLAGS: -I${SRCDIR}/../common -O3 -std=c11 -g0
#cgo LDFLAGS: -lm
#cgo noescape headroom_matmul_round
#cgo nocallback headroom_matmul_round
#cgo noescape multiply
#cgo nocallback multiply
#cgo noescape pack
#cgo nocallback pack
#cgo noescape headroom_matmul_gate
#cgo nocallback headroom_matmul_gate
#include "matmul.h"

void headroom_matmul_gate(int isa, const float *gate, ptrdiff_t gate_stride, float *out, ptrdiff_t out_stride, int64_t cols, int64_t block_cols,
                          int64_t from, int64_t to);
void headroom_matmul_round(int isa, const float *x, ptrdiff_t x_stride, int64_t rows, int64_t k, int8_t *q, float *runs);
void headroom_matmul_pack(int64_t k, int64_t unit, int64_t sums, int64_t split, const matmul_rows *r, int64_t from, int64_t to, const int8_t *q, const float *runs, void *packed);
void headroom_matmul_int8(int isa, const matmul_weight *w, int64_t from, int64_t to, const int8_t *q, const float *runs, const void *packed, const matmul_rows *r, void *scratch);
void headroom_matmul_float(int isa, const matmul_weight *w, int64_t from, int64_t to, const float *x, ptrdiff_t x_stride, const matmul_rows *r, const matmul_tile *tile);

// The structs are built here, because Go may not pass C the address of a Go struct that holds addresses.
static void multiply(int isa, const void *data, ptrdiff_t data_stride, const void *scales, ptrdiff_t scales_stride, const void *biases,
                     ptrdiff_t biases_stride, int64_t k, int mode, int bits, int group, int dtype, int64_t from, int64_t to,
                     const float *x, ptrdiff_t x_stride, const int8_t *q, const float *runs, const void *packed, int64_t unit, int64_t sums, int64_t split, void *room,
                     const int32_t *list, int64_t count, int64_t per_input, float *out, ptrdiff_t out_stride, void *tile, int64_t tile_rows) {
	matmul_weight w = {data, scales, biases, data_stride, scales_stride, biases_stride, k, mode, bits, group, dtype};
	matmul_rows r = {list, count, per_input, out, out_stride};
	matmul_tile t = {tile, tile_rows};
	if (!q) {
		headroom_matmul_float(isa, &w, from, to, x, x_stride, &r, &t);
		return;
	}
	if (room) {
		headroom_matmul_pack(k, unit, sums, split, &r, 0, (count + 15) / 16, q, runs, room);
		packed = room;
	}
	headroom_matmul_int8(isa, &w, from, to, q, runs, packed, &r, tile);
}

static void pack(int64_t k, int64_t unit, int64_t sums, int64_t split, int64_t count, int64_t from, int64_t to, const int8_t *q, const float *runs, void *packed) {
	matmul_rows r = {NULL, count, 1, NULL, 0};
	headroom_matmul_pack(k, unit, sums, split, &r, from, to, q, runs, packed);
}
*/
import "C"

import (
	"unsafe"

	"headroom/kernels"
	"headroom/kernels/cpu"
)

func (in *input) nativeRound(isa cpu.ISA, from, to int) {
	x := in.x.RowRange(from, to)
	C.headroom_matmul_round(C.int(isa), (*C.float)(x.Ptr()), C.ptrdiff_t(x.Stride),
		C.int64_t(x.Rows), C.int64_t(x.Cols),
		(*C.int8_t)(&in.codes(from)[0]), (*C.float)(&in.scales(from)[0]))
}

// nativePack packs blocks [from, to) of all rows (int8_pack.h).
func (in *input) nativePack(from, to int) {
	C.pack(C.int64_t(in.x.Cols), C.int64_t(in.packing.unit), C.int64_t(in.packing.sums),
		C.int64_t(in.packing.split), C.int64_t(in.x.Rows), C.int64_t(from), C.int64_t(to),
		(*C.int8_t)(&in.codes(0)[0]), (*C.float)(&in.scales(0)[0]), cpu.Ptr(in.packed()))
}

// tileBytes is what a tile of rows of floats may take: it is read once for every few rows of the
// input, so it should stay in the second-level cache. panelRows is how many rows of codes an
// integer product unpacks at a time, at most.
const (
	tileBytes = 256 << 10
	panelRows = 32
)

// nativeMultiply is multiply in C.
func (in *input) nativeMultiply(c *cpu.Context, worker int, p *Part, expert, from, to int, r rows,
	int8s bool) {
	w := p.W
	perRow := 4*w.K + 64
	tileRows := min(max(tileBytes/perRow&^3, 4), 64)
	if int8s { // codes, scales and biases of up to 2 units a chunk
		perRow, tileRows = paddedChunks(w.K)*(chunk+4*4), panelRows
	}
	// Many rows that are not packed yet are packed here, behind the tile.
	format, own := packingOf(c.ISA, w), 0
	if int8s && r.count > unpackedRows(c.ISA) && (in.packing != format || r.list != nil) {
		own = format.bytes(w.K, r.count)
	}
	local := c.Local(worker, tileRows*perRow+own)
	tile := local[:tileRows*perRow]
	var packed, room unsafe.Pointer
	switch {
	case own > 0:
		room = cpu.Ptr(local[tileRows*perRow:])
	case int8s && in.packing == format:
		packed = cpu.Ptr(in.packed())
	}
	matrix := func(t kernels.Tensor) (unsafe.Pointer, C.ptrdiff_t) {
		if t.IsNone() {
			return nil, 0
		}
		return t.RowRange(expert*w.N, (expert+1)*w.N).Ptr(), C.ptrdiff_t(t.Stride * t.DType.Size())
	}
	data, dataStride := matrix(w.Data)
	scales, scalesStride := matrix(w.Scales)
	biases, biasesStride := matrix(w.Biases)
	dtype := w.Data.DType
	if w.Bits > 0 {
		dtype = w.Scales.DType
	}
	var q *C.int8_t
	var runs *C.float
	if int8s {
		q, runs = (*C.int8_t)(&in.codes(0)[0]), (*C.float)(&in.scales(0)[0])
	}
	var list *C.int32_t
	if r.list != nil {
		list = (*C.int32_t)(&r.list[0])
	}
	C.multiply(C.int(c.ISA), data, dataStride, scales, scalesStride, biases, biasesStride,
		C.int64_t(w.K), C.int(w.Mode), C.int(w.Bits),
		C.int(w.Group), C.int(dtype), C.int64_t(from), C.int64_t(to), (*C.float)(in.x.Ptr()),
		C.ptrdiff_t(in.x.Stride), q, runs, packed,
		C.int64_t(format.unit), C.int64_t(format.sums), C.int64_t(format.split), room, list,
		C.int64_t(r.count), C.int64_t(r.perInput), (*C.float)(p.Out.Ptr()),
		C.ptrdiff_t(p.Out.Stride), cpu.Ptr(tile), C.int64_t(tileRows))
}

func (o *GateUp) nativeGate(isa cpu.ISA, from, to int) {
	C.headroom_matmul_gate(C.int(isa), (*C.float)(o.Temp.Ptr()), C.ptrdiff_t(o.Temp.Stride),
		(*C.float)(o.Out.Ptr()), C.ptrdiff_t(o.Out.Stride),
		C.int64_t(o.Out.Cols), gateCols, C.int64_t(from), C.int64_t(to))
}
