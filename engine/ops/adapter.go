package ops

// Adapters: what fine-tuning adds to the products with some weights, as a product of two small
// matrices (LoRA, Hu et al. 2021), and a factor for each column (DoRA, Liu et al. 2024). A span of
// the batch names its adapter, so a batch may have several. Each row is computed with its own
// adapter alone, by operators whose rows do not depend on each other: a row has the same bits with
// any others beside it. Without an adapter in the batch, a product costs one comparison more.

import (
	"headroom/kernels"
	"headroom/kernels/activation"
	"headroom/kernels/embedding"
	"headroom/kernels/matmul"
)

// LowRank is what an adapter adds to the products x wᵀ with a weight w of E matrices [N, K]:
// (x Aᵀ) Bᵀ. Then it multiplies the columns of the sum by Factor.
type LowRank struct {
	// A and B are stacks of E matrices [r, K] and [N, r]. They are nil if only lookups are adapted.
	A, B *kernels.Weight
	// Table and Expand, [N, r] and [K, r], are for lookups of rows of an embedding w: what is added
	// to row i is row i of Table times the transposed Expand. nil: products alone are adapted.
	Table, Expand *kernels.Weight
	Factor        kernels.Tensor // [1, N], or none
	// RowFactors and Ones, [N, 1] and [K, 1], are for lookups, too: row i of the sum is multiplied
	// by row i of RowFactors. nil: it is not. Ones has ones.
	RowFactors, Ones *kernels.Weight
	ColumnFactors    kernels.Tensor // [1, K], by which rows of a lookup are multiplied, or none
}

// width returns the elements per row that computing l takes besides the operands.
func (l *LowRank) width() int {
	n := 0
	if l.A != nil {
		n = l.B.N + l.B.K
	}
	if l.Table != nil {
		n = max(n, l.Expand.N+l.Expand.K)
	}
	return n
}

// Adapter has what an adapter adds, by the weights to whose products it does. It must not change.
type Adapter struct {
	Changes map[*kernels.Weight]*LowRank
}

// Use says how the operators of a pass used a weight, as far as an adapter can add to it.
type Use struct{ Product, Lookup bool }

// adapters is the part of a Context for adapters.
type adapters struct {
	loaded []*Adapter     // by number-1; nil: there is none
	rows   int            // of the batch
	ranges []adapterRange // of the rows of the batch that have an adapter, in order
	chosen []adapterRange // of the rows of Logits
	side   kernels.Tensor // F32 [1, n], memory for a part of the rows
	uses   map[*kernels.Weight]Use

	linear  linear
	experts experts
}

// adapterRange is the rows [from, to), which have the same adapter.
type adapterRange struct {
	from, to int
	of       *Adapter
}

// sideElements is the least size of the memory for what adapters add.
const sideElements = 1 << 20

// maxRowExperts bounds the experts of a row that an adapter changes.
const maxRowExperts = 64

// SetAdapter sets the adapter with that number, counted from 1, for spans that name it; nil removes
// it. No pass may be in flight that uses the number.
func (c *Context) SetAdapter(number int, a *Adapter) {
	for len(c.adapters.loaded) < number {
		c.adapters.loaded = append(c.adapters.loaded, nil)
	}
	c.adapters.loaded[number-1] = a
	if a == nil {
		return
	}
	n := sideElements
	for w, l := range a.Changes {
		rows := 1
		if w.Experts > 1 {
			rows = maxRowExperts
		}
		n = max(n, rows*l.width())
	}
	if n > c.adapters.side.Cols {
		c.adapters.side = kernels.NewTensor(c.Device, kernels.F32, 1, n)
	}
}

// RecordUses makes the operators that follow record how they use weights, in the map that it
// returns. It is for dry runs.
func (c *Context) RecordUses() map[*kernels.Weight]Use {
	c.adapters.uses = map[*kernels.Weight]Use{}
	return c.adapters.uses
}

// setSpans sets the spans of the batch.
func (a *adapters) setSpans(spans []kernels.Span) {
	a.ranges, a.rows = a.ranges[:0], 0
	for i := range spans {
		s := &spans[i]
		a.rows = max(a.rows, s.Row+s.Rows)
		if s.Adapter > 0 && s.Rows > 0 {
			a.ranges = join(a.ranges, s.Row, s.Row+s.Rows, a.loaded[s.Adapter-1])
		}
	}
}

// join appends the rows [from, to) to list, to the last range if that ends there and has the same
// adapter.
func join(list []adapterRange, from, to int, of *Adapter) []adapterRange {
	if n := len(list); n > 0 && list[n-1].to == from && list[n-1].of == of {
		list[n-1].to = to
		return list
	}
	return append(list, adapterRange{from, to, of})
}

// any reports whether an adapter of the batch adds to products with w.
func (a *adapters) any(w *kernels.Weight) bool {
	for i := range a.ranges {
		if l := a.ranges[i].of.Changes[w]; l != nil && l.A != nil {
			return true
		}
	}
	return false
}

// note records the use of w in a product with x, if uses are recorded. A product whose input has
// other rows than the batch does not count: nothing would say which adapter a row has.
func (a *adapters) note(w *kernels.Weight, x, ids kernels.Tensor) {
	if a.uses == nil || a.rows == 0 {
		return
	}
	rows := x.Rows
	if !ids.IsNone() {
		if rows = ids.Rows; rows != a.rows || ids.Cols > maxRowExperts {
			return
		}
	}
	if rows%a.rows == 0 {
		u := a.uses[w]
		u.Product = true
		a.uses[w] = u
	}
}

// adapt adds to out, the products of x with w, what the adapters of the batch add. ids is none, or
// that of Experts.
func (c *Context) adapt(out, x, ids kernels.Tensor, w *kernels.Weight) {
	a := &c.adapters
	if a.uses != nil {
		a.note(w, x, ids)
	}
	for i := range a.ranges {
		r := &a.ranges[i]
		l := r.of.Changes[w]
		switch {
		case l == nil || l.A == nil:
		case ids.IsNone():
			n := x.Rows / a.rows
			c.adaptRows(out, x, l, r.from*n, r.to*n)
		default:
			c.adaptExperts(out, x, ids, l, r.from, r.to)
		}
	}
}

// adaptLogits is adapt for the rows of the batch that indices lists. x has these rows.
func (c *Context) adaptLogits(out, x kernels.Tensor, indices []int32, w *kernels.Weight) {
	a := &c.adapters
	if a.uses != nil {
		u := a.uses[w]
		u.Product = true
		a.uses[w] = u
	}
	if !a.any(w) {
		return
	}
	a.chosen = a.chosen[:0]
	for i, row := range indices {
		for _, r := range a.ranges {
			if r.from <= int(row) && int(row) < r.to {
				a.chosen = join(a.chosen, i, i+1, r.of)
			}
		}
	}
	for _, r := range a.chosen {
		if l := r.of.Changes[w]; l != nil && l.A != nil {
			c.adaptRows(out, x, l, r.from, r.to)
		}
	}
}

// adaptRows adds to rows [from, to) of out what l adds for these rows of x. It takes as many at a
// time as the memory beside the arena has room for.
func (c *Context) adaptRows(out, x kernels.Tensor, l *LowRank, from, to int) {
	most := max(1, c.adapters.side.Cols/l.width())
	for ; from < to; from += most {
		end := min(to, from+most)
		low, added := c.side(end-from, l.B.K, l.B.N)
		c.product(low, x.RowRange(from, end), l.A)
		c.product(added, low, l.B)
		c.addTo(out.RowRange(from, end), added, l.Factor)
	}
}

// adaptExperts is adaptRows for stacks of experts and the rows [from, to) of ids. out has a row for
// each pair of row and expert, and x has that or a row for each row of ids.
func (c *Context) adaptExperts(out, x, ids kernels.Tensor, l *LowRank, from, to int) {
	k := ids.Cols
	most := max(1, c.adapters.side.Cols/(k*l.width()))
	perRow := x.Rows / ids.Rows
	for ; from < to; from += most {
		end := min(to, from+most)
		low, added := c.side((end-from)*k, l.B.K, l.B.N)
		chosen := ids.RowRange(from, end)
		c.expertProduct(low, x.RowRange(from*perRow, end*perRow), chosen, l.A)
		c.expertProduct(added, low, chosen, l.B)
		c.addTo(out.RowRange(from*k, end*k), added, l.Factor)
	}
}

// adaptLookup adds to out, the rows of w at tokens times scale, what the adapters of the batch add.
func (c *Context) adaptLookup(out, tokens kernels.Tensor, w *kernels.Weight, scale float32) {
	a := &c.adapters
	if a.uses != nil && tokens.Rows == a.rows {
		u := a.uses[w]
		u.Lookup = true
		a.uses[w] = u
	}
	for i := range a.ranges {
		r := &a.ranges[i]
		l := r.of.Changes[w]
		if l == nil || l.Table == nil {
			continue
		}
		most := max(1, a.side.Cols/l.width())
		for from := r.from; from < r.to; from += most {
			end := min(r.to, from+most)
			low, added := c.side(end-from, l.Table.K, l.Expand.N)
			run(c, &c.ops.lookup, embedding.Lookup{Tokens: tokens.RowRange(from, end),
				W: l.Table, Out: low, Scale: scale})
			c.product(added, low, l.Expand)
			c.addTo(out.RowRange(from, end), added, l.ColumnFactors)
			if l.RowFactors != nil {
				c.scaleRows(out.RowRange(from, end), tokens.RowRange(from, end), l)
			}
		}
	}
}

// scaleRows multiplies each row of a lookup by the factor of its token. A product with ones repeats
// the factor in all columns, exactly.
func (c *Context) scaleRows(out, tokens kernels.Tensor, l *LowRank) {
	factor, repeated := c.side(out.Rows, 1, out.Cols)
	run(c, &c.ops.lookup, embedding.Lookup{Tokens: tokens, W: l.RowFactors, Out: factor, Scale: 1})
	c.product(repeated, factor, l.Ones)
	c.MulTo(out, out, repeated)
}

// adaptedGateUp computes gateUp with what the adapters of the batch add to both products. A row
// without an adapter has the bits of matmul.GateUp. gated has the shape of out.
func (c *Context) adaptedGateUp(out, gated, x, ids kernels.Tensor, gate, up *kernels.Weight) {
	if ids.IsNone() {
		op := &c.ops.linear
		op.parts[0], op.parts[1] = matmul.Part{W: gate, Out: gated}, matmul.Part{W: up, Out: out}
		op.Linear = matmul.Linear{X: c.inOrder(x, gate), Parts: op.parts[:2], Prefill: c.prefill,
			Split: c.Split}
		c.Device.Run(&op.Linear)
	} else {
		op := &c.ops.experts
		op.parts[0], op.parts[1] = matmul.Part{W: gate, Out: gated}, matmul.Part{W: up, Out: out}
		op.Experts = matmul.Experts{X: x, IDs: ids, Parts: op.parts[:2], Prefill: c.prefill}
		c.Device.Run(&op.Experts)
	}
	c.adapt(gated, x, ids, gate)
	c.adapt(out, x, ids, up)
	run(c, &c.ops.siluMul, activation.SiLUMul{Gate: gated, Up: out, Out: out})
}

// side returns two matrices of so many rows in the memory beside the arena.
func (c *Context) side(rows, lowCols, cols int) (low, added kernels.Tensor) {
	all := c.adapters.side
	low = all.Columns(0, rows*lowCols).Reshape(rows, lowCols)
	added = all.Columns(rows*lowCols, rows*(lowCols+cols)).Reshape(rows, cols)
	return low, added
}

// product writes x wᵀ to out, by the kernels for decoding.
func (c *Context) product(out, x kernels.Tensor, w *kernels.Weight) {
	op := &c.adapters.linear
	op.parts[0] = matmul.Part{W: w, Out: out}
	op.Linear = matmul.Linear{X: x, Parts: op.parts[:1]}
	c.Device.Run(&op.Linear)
}

// expertProduct is product with the experts of each row.
func (c *Context) expertProduct(out, x, ids kernels.Tensor, w *kernels.Weight) {
	op := &c.adapters.experts
	op.parts[0] = matmul.Part{W: w, Out: out}
	op.Experts = matmul.Experts{X: x, IDs: ids, Parts: op.parts[:1]}
	c.Device.Run(&op.Experts)
}

// addTo adds y to out, and then multiplies the columns by factor unless it is none.
func (c *Context) addTo(out, y, factor kernels.Tensor) {
	c.AddTo(out, out, y)
	if !factor.IsNone() {
		c.MulTo(out, out, factor)
	}
}
