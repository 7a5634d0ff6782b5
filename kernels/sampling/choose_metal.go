package sampling

import (
	_ "embed"
	"math"

	"headroom/kernels/gpu"
)

//go:embed choose.metal
var chooseText string

var chooseKernel = gpu.NewKernel[chooseParams](&gpu.Source{Name: "sampling/choose.metal", Text: chooseText}, "choose")

// chooseParams is ChooseParams of choose.metal; strides in elements.
type chooseParams struct{ Vocab, LogitsStride, OutStride uint32 }

// drawInts is the length of a Draw in the table of choose.metal.
const drawInts = 6

// Metal implements gpu.Op: a threadgroup to a row.
func (o *Choose) Metal(c *gpu.Context) {
	table := c.Table(drawInts * len(o.Rows))
	for i := range o.Rows {
		l := o.Rows[i].limits(o.Logits.Cols)
		copy(table[drawInts*i:], []int32{int32(math.Float32bits(l.scale)), int32(math.Float32bits(l.reach)), int32(l.topK), int32(l.topP),
			int32(uint32(l.random)), int32(uint32(l.random >> 32))})
	}
	threads := 64
	for threads < 512 && threads*16 < o.Logits.Cols {
		threads *= 2
	}
	chooseKernel.Dispatch(c, chooseParams{uint32(o.Logits.Cols), uint32(o.Logits.Stride), uint32(o.Out.Stride)}, gpu.Rows(len(o.Rows), threads),
		gpu.Read(o.Logits), gpu.Ints(table), gpu.Write(o.Out))
}
