package matmul

// The activations' side of a product. Packed weights are multiplied in integers: rows of X are
// rounded once to 8 bits, each chunk of 64 with a scale of its own, and the sums that the weights'
// biases need are taken along the way.

import (
	"unsafe"

	"headroom/kernels"
	"headroom/kernels/cpu"
)

// input is an operator's X as the kernels read it: the float32 rows, and in scratch the same rows
// rounded to 8 bits if a quantized weight is to be multiplied that way.
//
// With C = chunks(K) rounded up to 16, scratch holds codes int8 [M, 2, C*64], each row in order and
// then with even and odd elements apart, as the instruction set likes them (round.c); then for each
// row five runs of float32:
//
//	scale    [C]   of each chunk of 64 elements: amax/127
//	scale32  [2C]  the same, twice: of each 32 elements
//	sums32   [2C]  sum of the rounded elements, scale*code, over each 32 (groups of 32)
//	sums64   [C]   over each 64
//	codes32  [2C]  sum of the codes alone, over each 32 (MXFP4)
//
// Everything past K is zero, so that kernels may read whole vectors.
type input struct {
	x       kernels.Tensor
	rounded bool
	packing packing // of all rows; the zero value: they are not packed
	scratch []byte
}

// packing is how many rows are brought together for panels of weights (int8_pack.h): by units of so
// many elements, with the run of sums that the weight's biases multiply. split is 0 if elements
// stay in order; else a unit's even ones come first, and rows come with those of so many chunks
// apart (SPLIT_CHUNKS in round.c).
type packing struct{ unit, sums, split int }

const packRows = 16 // rows of a block

// unpackedRows is up to how many rows never need packing on an instruction set: its FEW, or SLICES
// (int8.c).
func unpackedRows(isa cpu.ISA) int {
	switch isa {
	case cpu.AVX2:
		return 4
	case cpu.AVX512VNNI:
		return 16
	case cpu.AMX:
		return 12
	}
	return 8
}

// packingOf is the packing that a weight takes; plain weights take none.
func packingOf(isa cpu.ISA, w *kernels.Weight) packing {
	split := 0
	if w.Bits == 4 { // unpack_split in int8_panel.h
		switch isa {
		case cpu.AVX2:
			split = 1
		case cpu.AVX512, cpu.AVX512VNNI, cpu.AMX:
			split = 2
		}
	}
	switch {
	case w.Bits == 0:
		return packing{}
	case w.Mode == kernels.MXFP4:
		return packing{32, 6, split}
	case w.Group == 32:
		return packing{32, 3, split}
	}
	return packing{64, 5, split}
}

// bytes is what rows of width k take.
func (p packing) bytes(k, rows int) int {
	return (rows + packRows - 1) / packRows * (k / p.unit) * packRows * (p.unit + 8)
}

// rows says which rows of an operator's output a weight contributes to, and thereby which of its
// input: output row r takes input row r/perInput. A nil list means rows [0, count).
type rows struct {
	list     []int32
	count    int
	perInput int
}

func (r rows) at(i int) (out, in int) {
	out = i
	if r.list != nil {
		out = int(r.list[i])
	}
	return out, out / r.perInput
}

const (
	chunk    = 64 // elements that share a scale
	sumsRuns = 8  // C float32 of a row, this many times
)

func chunks(k int) int       { return (k + chunk - 1) / chunk }
func paddedChunks(k int) int { return (chunks(k) + 15) &^ 15 }

// plan sets in up for x and returns the bytes of scratch it needs.
func (in *input) plan(c *cpu.Context, x kernels.Tensor, parts []Part) int {
	in.x, in.rounded, in.packing = x, false, packing{}
	if c.Int8Activation {
		for _, p := range parts {
			in.rounded = in.rounded || p.W.Bits > 0
		}
	}
	if !in.rounded {
		return 0
	}
	return in.roundedBytes()
}

func (in *input) roundedBytes() int {
	return in.x.Rows * paddedChunks(in.x.Cols) * (2*chunk + 4*sumsRuns)
}

// planPacked sets in up to pack all rows as well, after plan, and returns the bytes of scratch that
// this needs more. It pays where every weight meets every row.
func (in *input) planPacked(c *cpu.Context, parts []Part) int {
	if !in.rounded || c.ISA == cpu.Generic || in.x.Rows <= unpackedRows(c.ISA) {
		return 0
	}
	for _, p := range parts {
		if in.packing = packingOf(c.ISA, p.W); in.packing.unit > 0 {
			return in.packing.bytes(in.x.Cols, in.x.Rows)
		}
	}
	return 0
}

// packed is where rows are packed.
func (in *input) packed() []byte { return in.scratch[in.roundedBytes():] }

// roundGrain is how many rows of width k a thread rounds at a time: about 5 µs of work.
func roundGrain(k int) int { return 1 + 1<<15/max(k, 1) }

// codes is row r in 8 bits, in order.
func (in *input) codes(r int) []int8 {
	n := paddedChunks(in.x.Cols) * chunk
	return unsafe.Slice((*int8)(unsafe.Pointer(&in.scratch[r*2*n])), n)
}

// scales is row r's runs of float32.
func (in *input) scales(r int) []float32 {
	n := paddedChunks(in.x.Cols) * sumsRuns
	at := in.x.Rows*paddedChunks(in.x.Cols)*2*chunk + r*n*4
	return unsafe.Slice((*float32)(unsafe.Pointer(&in.scratch[at])), n)
}

// round rounds rows [from, to).
func (in *input) round(c *cpu.Context, from, to int) {
	if c.ISA == cpu.Generic {
		for r := from; r < to; r++ {
			roundRow(in.x.Row(r), in.codes(r), in.scales(r))
		}
		return
	}
	in.nativeRound(c.ISA, from, to)
}

// multiply computes elements [from, to) of the rows r of p.Out with expert's matrix.
func (in *input) multiply(c *cpu.Context, worker int, p *Part, expert, from, to int, r rows) {
	int8s := in.rounded && p.W.Bits > 0
	switch {
	case c.ISA != cpu.Generic:
		in.nativeMultiply(c, worker, p, expert, from, to, r, int8s)
	case int8s:
		in.int8Rows(p, expert, from, to, r)
	default:
		in.floatRows(p, expert, from, to, r)
	}
}
