//go:build cgo

package matmul

/*
#cgo CFLAGS: -O3 -std=c11 -g0
#cgo LDFLAGS: -lm
#cgo noescape headroom_matmul_policy
#cgo nocallback headroom_matmul_policy
#cgo noescape headroom_matmul_round
#cgo nocallback headroom_matmul_round
#cgo noescape headroom_matmul_pack
#cgo nocallback headroom_matmul_pack
#cgo noescape headroom_matmul
#cgo nocallback headroom_matmul
#cgo noescape headroom_matmul_split_pack
#cgo nocallback headroom_matmul_split_pack
#cgo noescape headroom_matmul_split
#cgo nocallback headroom_matmul_split
#cgo noescape headroom_matmul_gate
#cgo nocallback headroom_matmul_gate
#include "matmul.h"
*/
import "C"

import (
	"unsafe"

	"headroom/kernels"
	"headroom/kernels/cpu"
)

// Constants of C and Go that differ do not compile.
var (
	_ = [1]int{}[C.MATMUL_CHUNK-chunk]
	_ = [1]int{}[C.MATMUL_PARAMS-chunkParams]
	_ = [1]int{}[C.MATMUL_PACK_ROWS-packRows]
	_ = [1]int{}[C.MATMUL_ROW_GAP-rowGap]
	_ = [1]int{}[C.MATMUL_SPLIT_STEP-splitStep]
	_ = [1]int{}[C.MATMUL_SPLIT_PANELS-splitPanels]
)

// policies has the policy of every instruction set except Generic.
var policies = func() (all [cpu.NEON + 1]policy) {
	for isa := cpu.AVX2; isa <= cpu.NEON; isa++ {
		var p C.struct_matmul_policy
		C.headroom_matmul_policy(C.int(isa), &p)
		all[isa] = policy{int(p.unpacked_rows), int(p.panel_split), int(p.streams),
			int(p.slice4_rows)}
	}
	return all
}()

// hasSplit reports whether this build can multiply split floats (split.c).
var hasSplit = C.headroom_matmul_has_split() != 0

func (p packing) c() C.struct_matmul_packing {
	return C.struct_matmul_packing{unit: C.int64_t(p.unit), sums: C.int64_t(p.sums),
		split: C.int64_t(p.split)}
}

// rounded returns the addresses of row r's codes and of its scales and sums.
func (in *input) rounded(r int) (*C.int8_t, *C.float) {
	return (*C.int8_t)(&in.codes(r)[0]), (*C.float)(&in.params(r)[0])
}

func (in *input) nativeRound(isa cpu.ISA, from, to int) {
	x := in.x.RowRange(from, to)
	q, params := in.rounded(from)
	C.headroom_matmul_round(C.int(isa), (*C.float)(x.Ptr()), C.ptrdiff_t(x.Stride),
		C.int64_t(x.Rows), C.int64_t(x.Cols), q, params)
}

// nativePack packs blocks [from, to) of all rows (int8_pack.h).
func (in *input) nativePack(from, to int) {
	format := in.packing.c()
	q, params := in.rounded(0)
	C.headroom_matmul_pack(&format, C.int64_t(in.x.Cols), C.int64_t(in.x.Rows), C.int64_t(from),
		C.int64_t(to), q, params, cpu.Ptr(in.packed()))
}

// tileBytes is the size of a tile of unpacked rows. It is read once for every few rows of the
// input, so it should stay in the second-level cache. panelRows is the largest number of weight
// rows in a panel (PANEL_ROWS).
const (
	tileBytes = 256 << 10
	panelRows = 32
)

// matrix returns the address of an expert's n rows of t.
func matrix(t kernels.Tensor, expert, n int) unsafe.Pointer {
	if t.IsNone() {
		return nil
	}
	return t.RowRange(expert*n, (expert+1)*n).Ptr()
}

func byteStride(t kernels.Tensor) C.int64_t { return C.int64_t(t.Stride * t.DType.Size()) }

// nativeMultiply is multiply in C.
func (in *input) nativeMultiply(c *cpu.Context, worker int, p *Part, expert, from, to int, r rows,
	int8s bool) {
	w := p.W
	format := packingOf(c.ISA, w)
	perRow := 4*w.K + 64
	tileRows := min(max(tileBytes/perRow&^3, 4), 64)
	if int8s { // codes, scales and biases, with up to 2 units per chunk
		perRow, tileRows = paddedChunks(w.K)*(chunk+4*4), panelRows
	}
	// If there are many rows and they are not packed yet, they are packed after the tile.
	packBytes := 0
	if int8s && r.count > policyOf(c.ISA).unpackedRows && (in.packing != format || r.list != nil) {
		packBytes = format.bytes(w.K, r.count)
	}
	local := c.Local(worker, tileRows*perRow+packBytes)
	var packed, room unsafe.Pointer
	switch {
	case packBytes > 0:
		room = cpu.Ptr(local[tileRows*perRow:])
	case int8s && in.packing == format:
		packed = cpu.Ptr(in.packed())
	}
	shape := C.struct_matmul_shape{
		k: C.int64_t(w.K), mode: C.int64_t(w.Mode), bits: C.int64_t(w.Bits),
		group: C.int64_t(w.Group), dtype: C.int64_t(w.Data.DType),
		data_stride: byteStride(w.Data), scales_stride: byteStride(w.Scales),
		biases_stride: byteStride(w.Biases),
		from:          C.int64_t(from), to: C.int64_t(to),
		count: C.int64_t(r.count), per_input: C.int64_t(r.perInput),
		x_stride: C.int64_t(in.x.Stride), out_stride: C.int64_t(p.Out.Stride),
		tile_rows: C.int64_t(tileRows), packing: format.c(),
	}
	if w.Bits > 0 {
		shape.dtype = C.int64_t(w.Scales.DType)
	}
	var q *C.int8_t
	var params *C.float
	if int8s {
		q, params = in.rounded(0)
	}
	C.headroom_matmul(C.int(c.ISA), &shape, matrix(w.Data, expert, w.N),
		matrix(w.Scales, expert, w.N), matrix(w.Biases, expert, w.N), (*C.float)(in.x.Ptr()),
		q, params, packed, room, (*C.int32_t)(unsafe.SliceData(r.list)), (*C.float)(p.Out.Ptr()),
		cpu.Ptr(local))
}

// nativeSplitRows splits blocks [from, to) of all rows (split.c).
func (in *input) nativeSplitRows(from, to int) {
	C.headroom_matmul_split_pack((*C.float)(in.x.Ptr()), C.ptrdiff_t(in.x.Stride),
		C.int64_t(in.x.Rows), C.int64_t(in.x.Cols), C.int64_t(from), C.int64_t(to),
		cpu.Ptr(in.scratch[in.splitAt:]))
}

// nativeSplit computes columns [from, to) of p.Out from split rows (split.c).
func (in *input) nativeSplit(c *cpu.Context, worker int, p *Part, from, to int) {
	shape := C.struct_matmul_shape{k: C.int64_t(p.W.K), dtype: C.int64_t(p.W.Data.DType),
		data_stride: byteStride(p.W.Data), from: C.int64_t(from), to: C.int64_t(to),
		count: C.int64_t(in.x.Rows), out_stride: C.int64_t(p.Out.Stride)}
	C.headroom_matmul_split(&shape, p.W.Data.Ptr(), cpu.Ptr(in.scratch[in.splitAt:]),
		(*C.float)(p.Out.Ptr()), cpu.Ptr(c.Local(worker, C.MATMUL_SPLIT_BYTES)))
}

func (o *GateUp) nativeGate(isa cpu.ISA, from, to int) {
	C.headroom_matmul_gate(C.int(isa), (*C.float)(o.Temp.Ptr()), C.ptrdiff_t(o.Temp.Stride),
		(*C.float)(o.Out.Ptr()), C.ptrdiff_t(o.Out.Stride),
		C.int64_t(o.Out.Cols), gateCols, C.int64_t(from), C.int64_t(to))
}
