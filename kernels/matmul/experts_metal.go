package matmul

import (
	_ "embed"

	"headroom/kernels/gpu"
	"headroom/metal"
)

//go:embed experts_sort.metal
var expertsSortText string

var expertsSortKernel = gpu.NewKernel[expertsSortParams](
	&gpu.Source{Name: "matmul/experts_sort.metal", Text: expertsSortText}, "experts_sort")

// expertsSortParams mirrors ExpertsSortParams in experts_sort.metal.
type expertsSortParams struct{ Rows, Experts, Choices, IDsStride, Tiles uint32 }

// maxSorted is the number of experts that experts_sort can count. Models with more multiply row by
// row.
const maxSorted = 2047

// Metal implements gpu.Op. Prefill rows are sorted by expert and use matrix units. Each of the
// others uses the matrix of its id.
func (o *Experts) Metal(c *gpu.Context) {
	prefill := o.Prefill
	if o.Parts[0].W.Experts > maxSorted {
		prefill = nil
	}
	prefill.each(o.IDs.Rows, func(r Rows) { o.few(c, r) }, func(r Rows) { o.sorted(c, r) })
}

// launch returns the arguments for rows r of IDs, except for the operand that chooses their
// experts.
func (o *Experts) launch(part Part, r Rows) launch {
	k, shared := o.IDs.Cols, o.perInput()
	perToken := k / shared // rows of X
	return launch{
		x:    o.X.RowRange(r.From*perToken, r.To*perToken),
		part: Part{W: part.W, Out: part.Out.RowRange(r.From*k, r.To*k)}, shared: shared,
		experts: uint32(part.W.Experts), choices: uint32(k), ids: uint32(o.IDs.Stride),
	}
}

func (o *Experts) few(c *gpu.Context, r Rows) {
	for _, part := range o.Parts {
		p := o.launch(part, r)
		p.choice = gpu.Read(o.IDs.RowRange(r.From, r.To))
		p.few(c)
	}
}

func (o *Experts) sorted(c *gpu.Context, r Rows) {
	rows, experts := (r.To-r.From)*o.IDs.Cols, o.Parts[0].W.Experts
	// An expert's last tile may be partly empty, and one more expert collects invalid ids.
	tiles := min(rows, (rows+tileRows-1)/tileRows+experts+1)
	lists := c.Scratch(4 * (rows + 3*tiles))
	expertsSortKernel.Dispatch(c, expertsSortParams{
		Rows: uint32(rows), Experts: uint32(experts), Choices: uint32(o.IDs.Cols),
		IDsStride: uint32(o.IDs.Stride), Tiles: uint32(tiles),
	}, gpu.Grid{Groups: metal.Size{X: 1, Y: 1, Z: 1}, Threads: metal.Size{X: 256, Y: 1, Z: 1}},
		gpu.Read(o.IDs.RowRange(r.From, r.To)), lists)
	for _, part := range o.Parts {
		p := o.launch(part, r)
		p.choice = lists.ToRead()
		p.dispatch(c, tileRows, tiles)
	}
}
