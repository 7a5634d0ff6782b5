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
		copy(table[drawInts*i:],
			[]int32{int32(math.Float32bits(l.scale)), int32(math.Float32bits(l.reach)),
				int32(l.topK), int32(l.topP),
				int32(uint32(l.random)), int32(uint32(l.random >> 32))})
		drawn = drawn || l.scale != 0
		filtered = filtered || l.scale != 0 && (l.topK < uint32(vocab) || l.topP != 0)
	}
	tokens := max(min(partTokens, vocab), (vocab+mostParts-1)/mostParts)
	if o.partTokens > 0 {
		tokens = o.partTokens
	}
	parts := (vocab + tokens - 1) / tokens
	p := chooseParams{Vocab: uint32(vocab), LogitsStride: uint32(o.Logits.Stride),
		OutStride: uint32(o.Out.Stride), Parts: uint32(parts), PartTokens: uint32(tokens)}
	grid := gpu.Rows(rows, min(chooseThreads, (tokens+31)/32*32))
	grid.Groups.Y = parts

	logits, draws := gpu.Read(o.Logits), gpu.Ints(table)
	n := rows * parts * partBytes
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
