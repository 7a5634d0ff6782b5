package matmul

// The activations of a product. Packed weights other than MXFP8 are multiplied in integers: rows of
// X are rounded once to 8 bits, each chunk of 64 elements with its own scale, and the sums that the
// weights' biases multiply are computed along the way.

import (
	"unsafe"

	"headroom/kernels"
	"headroom/kernels/cpu"
)

// input is the X of an operator: its float32 rows and, if a quantized weight multiplies them in
// integers, the same rows rounded to 8 bits in scratch.
//
// With C = paddedChunks(K), scratch holds for each row codes int8 [2, C*64], in order and again
// separated into even and odd elements (SPLIT_CHUNKS in policy.h), and a gap. Then follow the
// float32 params of each row [M, 8*C]:
//
//	scale    [C]   of each chunk of 64 elements: amax/127
//	scale32  [2C]  the same, twice: of each 32 elements
//	sums32   [2C]  sum of the rounded elements, scale*code, over each 32 (groups of 32)
//	sums64   [C]   over each 64
//	codes32  [2C]  sum of the codes alone, over each 32 (MXFP4)
//
// Everything past K is zero, so kernels may read whole vectors.
type input struct {
	x       kernels.Tensor
	rounds  bool    // whether rows are rounded
	packing packing // of all rows; zero if they are not packed
	splits  bool    // whether rows are split for weights of plain floats (split.c)
	splitAt int     // offset in scratch of the split rows
	scratch []byte
}

// packing is how rows are packed into blocks for panels of weights (int8_pack.h).
type packing struct {
	unit  int // elements whose products add up to one integer
	sums  int // offset of the sums that the weight's biases multiply, in multiples of C
	split int // 0: elements in order; else a unit's even elements come first (PANEL_SPLIT)
}

const (
	packRows    = 16  // rows of a block
	rowGap      = 128 // bytes after the codes of a row (MATMUL_ROW_GAP)
	splitStep   = 32  // elements of a step of split rows
	splitPanels = 8   // panels that a thread multiplies with the same split rows
)

// packingOf returns the packing that a weight's panels need. Weights of floats need none.
func packingOf(isa cpu.ISA, w *kernels.Weight) packing {
	split := 0
	if w.Bits == 4 {
		split = policyOf(isa).panelSplit
	}
	switch {
	case w.Float():
		return packing{}
	case w.Mode == kernels.MXFP4:
		return packing{32, 6, split}
	case w.Group == 32:
		return packing{32, 3, split}
	}
	return packing{64, 5, split}
}

// bytes returns the size of a number of packed rows of width k.
func (p packing) bytes(k, rows int) int {
	return (rows + packRows - 1) / packRows * (k / p.unit) * packRows * (p.unit + 8)
}

// rows are the rows of an operator's output that a weight contributes to. Output row r is computed
// from input row r/perInput. A nil list means rows [0, count).
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
	chunk       = 64 // elements that share a scale
	chunkParams = 8  // params per padded chunk of a row
)

func chunks(k int) int       { return (k + chunk - 1) / chunk }
func paddedChunks(k int) int { return (chunks(k) + 15) &^ 15 }

// rowCodes returns the bytes from the codes of a row of width k to those of the next one.
func rowCodes(k int) int { return paddedChunks(k)*2*chunk + rowGap }

// plan prepares the input for x and returns how many bytes of scratch it needs.
func (in *input) plan(c *cpu.Context, x kernels.Tensor, parts []Part) int {
	in.x, in.rounds, in.packing, in.splits = x, false, packing{}, false
	if c.Int8Activation {
		for _, p := range parts {
			in.rounds = in.rounds || !p.W.Float()
		}
	}
	if !in.rounds {
		return 0
	}
	return in.roundedBytes()
}

func (in *input) roundedBytes() int {
	return in.x.Rows * (rowCodes(in.x.Cols) + paddedChunks(in.x.Cols)*4*chunkParams)
}

// planPacked, called after plan, prepares the input to pack all rows if there are enough of them,
// and returns how many more bytes of scratch that needs. Packing in advance pays where every weight
// multiplies every row.
func (in *input) planPacked(c *cpu.Context, parts []Part) int {
	if !in.rounds || c.ISA == cpu.Generic || in.x.Rows <= policyOf(c.ISA).unpackedRows {
		return 0
	}
	for _, p := range parts {
		if in.packing = packingOf(c.ISA, p.W); in.packing.unit > 0 {
			return in.packing.bytes(in.x.Cols, in.x.Rows)
		}
	}
	return 0
}

// planSplit, called after the other plans, which need size bytes of scratch, prepares the input to
// split its rows if the processor multiplies split floats. It returns how many more bytes that
// needs.
func (in *input) planSplit(c *cpu.Context, size int, parts []Part) int {
	if c.ISA != cpu.AMX || !hasSplit {
		return 0
	}
	for _, p := range parts {
		if p.W.Bits == 0 {
			in.splits, in.splitAt = true, (size+63)&^63
			steps := (in.x.Cols + splitStep - 1) / splitStep
			blocks := (in.x.Rows + packRows - 1) / packRows
			return in.splitAt - size + blocks*packRows*steps*splitStep*4
		}
	}
	return 0
}

// packed returns the memory of the packed rows.
func (in *input) packed() []byte { return in.scratch[in.roundedBytes():] }

// roundGrain returns how many rows of width k a thread rounds at a time: about 5 µs of work.
func roundGrain(k int) int { return 1 + 1<<15/max(k, 1) }

// codes returns row r in 8 bits, in order.
func (in *input) codes(r int) []int8 {
	n := paddedChunks(in.x.Cols) * chunk
	return unsafe.Slice((*int8)(unsafe.Pointer(&in.scratch[r*rowCodes(in.x.Cols)])), n)
}

// params returns row r's scales and sums, as input describes them.
func (in *input) params(r int) []float32 {
	n := paddedChunks(in.x.Cols) * chunkParams
	at := in.x.Rows*rowCodes(in.x.Cols) + r*n*4
	return unsafe.Slice((*float32)(unsafe.Pointer(&in.scratch[at])), n)
}

// round rounds rows [from, to).
func (in *input) round(c *cpu.Context, from, to int) {
	if c.ISA == cpu.Generic {
		for r := from; r < to; r++ {
			roundRow(in.x.Row(r), in.codes(r), in.params(r))
		}
		return
	}
	in.nativeRound(c.ISA, from, to)
}

// multiply computes columns [from, to) of the rows r of p.Out with the expert's matrix.
func (in *input) multiply(c *cpu.Context, worker int, p *Part, expert, from, to int, r rows) {
	int8s := in.rounds && !p.W.Float()
	switch {
	case in.splits && p.W.Bits == 0:
		in.nativeSplit(c, worker, p, from, to)
	case c.ISA != cpu.Generic:
		in.nativeMultiply(c, worker, p, expert, from, to, r, int8s)
	case int8s:
		in.int8Rows(p, expert, from, to, r)
	default:
		in.floatRows(p, expert, from, to, r)
	}
}
