package gpu

// Ranges of a weight, for weights that are longer than a Metal buffer or lie across the end of one.

import "headroom/kernels"

// Range is a part of a weight: rows [Row, Row+Rows) of each of the experts [Expert,
// Expert+Experts). A range of several experts has all of their rows. A matrix is one expert.
type Range struct{ Expert, Experts, Row, Rows int }

// RangeFrom returns the longest range of w that begins at row at of all experts' rows and lies in
// one buffer, together with the same range of each weight of others. They have the shape of w, and
// may be nil. A dispatch for each range replaces one for the whole weight:
//
//	for at := 0; at < w.Experts*w.N; {
//		r := gpu.RangeFrom(at, w)
//		...
//		at += r.Experts * r.Rows
//	}
//
// If not even a row lies in one buffer, the range is all the rest, and its dispatch fails.
func RangeFrom(at int, w *kernels.Weight, others ...*kernels.Weight) Range {
	end := min(w.Experts*w.N, rowsFrom(at, w))
	for _, o := range others {
		if o != nil {
			end = min(end, rowsFrom(at, o))
		}
	}
	if end == at {
		end = w.Experts * w.N
	}
	first, row := at/w.N, at%w.N
	if row == 0 && end-at >= w.N {
		return Range{Expert: first, Experts: (end - at) / w.N, Rows: w.N}
	}
	return Range{Expert: first, Experts: 1, Row: row, Rows: min(end, (first+1)*w.N) - at}
}

// rowsFrom returns the end of the rows of w from row at on that lie in one buffer.
func rowsFrom(at int, w *kernels.Weight) int {
	return min(tensorRowsFrom(at, w.Data), tensorRowsFrom(at, w.Scales),
		tensorRowsFrom(at, w.Biases))
}

func tensorRowsFrom(at int, t kernels.Tensor) int {
	const all = 1 << 62
	if t.IsNone() {
		return all
	}
	m, ok := t.Buffer.Handle.(*memory)
	if !ok || len(m.buffers) == 1 {
		return all // bytesOf reports the foreign buffer
	}
	row, size := t.Stride*t.DType.Size(), t.DType.Size()
	begin := m.offset + t.Offset + at*row
	room := m.reach(begin) - begin - t.Cols*size // after the first row
	if room < 0 {
		return at
	}
	if row == 0 {
		return all
	}
	return at + 1 + room/row
}

// of returns the rows of r in a tensor of a weight with rows rows per expert.
func (r Range) of(t kernels.Tensor, rows int) kernels.Tensor {
	if t.IsNone() {
		return t
	}
	from := r.Expert*rows + r.Row
	return t.RowRange(from, from+(r.Experts-1)*rows+r.Rows)
}
