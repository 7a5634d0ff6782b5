package sampling

import (
	_ "embed"
	"math"

	"headroom/kernels"
	"headroom/kernels/gpu"
)

//go:embed choose.metal
var chooseText string

var (
	chooseSource = &gpu.Source{Name: "sampling/choose.metal", Text: chooseText}
	chooseBest   = gpu.NewKernel[chooseParams](chooseSource, "choose_best")
	chooseCount  = gpu.NewKernel[chooseParams](chooseSource, "choose_count")
	chooseSum    = gpu.NewKernel[chooseParams](chooseSource, "choose_sum")
	choosePick   = gpu.NewKernel[chooseParams](chooseSource, "choose_pick")
	likeliest    = gpu.NewKernel[chooseParams](chooseSource, "likeliest")
)

// chooseParams is ChooseParams of choose.metal. Strides are in elements.
type chooseParams struct {
	Vocab, LogitsStride, OutStride, Parts, PartTokens, Filtered, Level uint32
}

// Sizes in choose.metal.
const (
	drawInts       = 6            // integers of a Draw in the table
	partBytes      = 24           // size of Part
	cutBytes       = 32           // size of Cut
	histogramBytes = 3 * 4 * 2048 // size of the histogram of a level
	chooseLevels   = 3
	mostParts      = 64
)

const (
	partTokens    = 4096 // tokens per part of a row, unless that makes more than mostParts
	chooseThreads = 256
)

// Metal implements gpu.Op. Each part of a row has one threadgroup. Steps that no row needs are not
// dispatched.
func (o *Choose) Metal(c *gpu.Context) {
	rows, vocab := len(o.Rows), o.Logits.Cols
	if rows == 0 || vocab == 0 {
		return
	}
	table, drawn, filtered := c.Table(drawInts*rows), false, false
	for i := range o.Rows {
		l := o.Rows[i].limits(vocab)
		l.put(table[drawInts*i:])
		drawn = drawn || l.scale != 0
		filtered = filtered || l.scale != 0 && (l.topK < uint32(vocab) || l.topP != 0)
	}
	p, grid := partsOf(o.Logits, o.Out, o.partTokens)
	logits, draws := gpu.Read(o.Logits), gpu.Ints(table)
	n := rows * int(p.Parts) * partBytes
	found, bins, cuts := gpu.Write(kernels.Tensor{}), gpu.Write(kernels.Tensor{}),
		gpu.Write(kernels.Tensor{})
	if filtered {
		m := rows * chooseLevels * histogramBytes
		scratch := c.Scratch(n + rows*chooseLevels*cutBytes + m)
		found, bins, cuts = scratch.Part(m, m+n), scratch.Part(0, m),
			scratch.Part(m+n, m+n+rows*chooseLevels*cutBytes)
		p.Filtered = 1
	} else {
		found = c.Scratch(n)
	}
	chooseBest.Dispatch(c, p, grid, logits, draws, found, bins)
	if filtered {
		for level := range uint32(chooseLevels) {
			q := p
			q.Level = level
			chooseCount.Dispatch(c, q, grid, logits, draws, found.ToRead(), bins, cuts)
		}
	}
	if drawn {
		chooseSum.Dispatch(c, p, grid, logits, draws, found, bins, cuts)
	}
	choosePick.Dispatch(c, p, gpu.Rows(rows, chooseThreads), logits, draws, found.ToRead(),
		cuts.ToRead(), gpu.Write(o.Out))
}

// put writes the settings of a row as a Draw.
func (l *limits) put(draw []int32) {
	copy(draw, []int32{int32(math.Float32bits(l.scale)), int32(math.Float32bits(l.reach)),
		int32(l.topK), int32(l.topP), int32(uint32(l.random)), int32(uint32(l.random >> 32))})
}

// partsOf returns the parameters and the grid of kernels that have a threadgroup for each part of a
// row. tokens is the number of tokens of a part; 0: the default.
func partsOf(logits, out kernels.Tensor, tokens int) (p chooseParams, grid gpu.Grid) {
	vocab := logits.Cols
	if tokens == 0 {
		tokens = max(min(partTokens, vocab), (vocab+mostParts-1)/mostParts)
	}
	parts := (vocab + tokens - 1) / tokens
	grid = gpu.Rows(logits.Rows, min(chooseThreads, (tokens+31)/32*32))
	grid.Groups.Y = parts
	return chooseParams{Vocab: uint32(vocab), LogitsStride: uint32(logits.Stride),
		OutStride: uint32(out.Stride), Parts: uint32(parts), PartTokens: uint32(tokens)}, grid
}

// Metal implements gpu.Op. The parts of a row find its token and its mass as for Choose.
func (o *Likeliest) Metal(c *gpu.Context) {
	rows, vocab := o.Logits.Rows, o.Logits.Cols
	if rows == 0 || vocab == 0 {
		return
	}
	table, s := c.Table(drawInts*rows), Settings{Temperature: 1}
	for i := range rows {
		l := s.limits(vocab)
		l.put(table[drawInts*i:])
	}
	p, grid := partsOf(o.Logits, o.Out, 0)
	logits, draws, none := gpu.Read(o.Logits), gpu.Ints(table), gpu.Write(kernels.Tensor{})
	found := c.Scratch(rows * int(p.Parts) * partBytes)
	chooseBest.Dispatch(c, p, grid, logits, draws, found, none)
	chooseSum.Dispatch(c, p, grid, logits, draws, found, none, none)
	likeliest.Dispatch(c, p, gpu.Rows(rows, 32), found.ToRead(), gpu.Write(o.Out))
}
