package matmul

import "headroom/kernels/gpu"

// dividedRows calls run for about as many ranges of rows as parts. Apart from the last one they are
// multiples of a tile. It reports whether there are several.
func dividedRows(rows, parts int, run func(Rows)) bool {
	most := ((rows+parts-1)/parts + tileRows - 1) / tileRows * tileRows
	if most >= rows {
		return false
	}
	for from := 0; from < rows; from += most {
		run(Rows{from, min(from+most, rows)})
	}
	return true
}

// within returns the part of p in a range of rows, counted from its beginning.
func (p Prefill) within(r Rows) (part Prefill) {
	for _, q := range p {
		if from, to := max(q.From, r.From), min(q.To, r.To); from < to {
			part = append(part, Rows{from - r.From, to - r.From})
		}
	}
	return part
}

// rowsOf returns parts with a range of rows of their outputs.
func rowsOf(parts []Part, r Rows) []Part {
	some := make([]Part, len(parts))
	for i, p := range parts {
		some[i] = Part{W: p.W, Out: p.Out.RowRange(r.From, r.To)}
	}
	return some
}

// Divide implements gpu.Divisible.
func (o *Linear) Divide(parts int, run func(gpu.Op)) {
	if !dividedRows(o.X.Rows, parts, func(r Rows) {
		run(&Linear{X: o.X.RowRange(r.From, r.To), Parts: rowsOf(o.Parts, r),
			Prefill: o.Prefill.within(r), Split: o.Split})
	}) {
		run(o)
	}
}

// Divide implements gpu.Divisible. Every part reads the experts that its rows have chosen.
func (o *Experts) Divide(parts int, run func(gpu.Op)) {
	k, perToken := o.IDs.Cols, o.IDs.Cols/o.perInput()
	if !dividedRows(o.IDs.Rows, parts, func(r Rows) {
		run(&Experts{X: o.X.RowRange(r.From*perToken, r.To*perToken),
			IDs:   o.IDs.RowRange(r.From, r.To),
			Parts: rowsOf(o.Parts, Rows{r.From * k, r.To * k}), Prefill: o.Prefill.within(r)})
	}) {
		run(o)
	}
}

// Divide implements gpu.Divisible.
func (o *GateUp) Divide(parts int, run func(gpu.Op)) {
	if !dividedRows(o.X.Rows, parts, func(r Rows) {
		k, ids := 1, o.IDs
		if !ids.IsNone() {
			k, ids = ids.Cols, ids.RowRange(r.From, r.To)
		}
		run(&GateUp{X: o.X.RowRange(r.From, r.To), IDs: ids, Gate: o.Gate, Up: o.Up,
			Out:  o.Out.RowRange(r.From*k, r.To*k),
			Temp: o.Temp.RowRange(r.From*k, r.To*k), Prefill: o.Prefill.within(r), Split: o.Split})
	}) {
		run(o)
	}
}

var (
	_ gpu.Divisible = (*Linear)(nil)
	_ gpu.Divisible = (*Experts)(nil)
	_ gpu.Divisible = (*GateUp)(nil)
)
