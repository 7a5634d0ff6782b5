package ops

// The product with some rows of a weight: those of a shortlist of the vocabulary. No row is copied.
// The weight is described as many weights, each with some of its rows, and all are parts of one
// product.

import (
	"headroom/kernels"
	"headroom/kernels/matmul"
)

// shortlist has the parts of ShortLogits, which are kept from one call to the next.
type shortlist struct {
	matmul.Linear
	of      *kernels.Weight
	rows    [][2]int // of each part
	weights []kernels.Weight
	parts   []matmul.Part
}

// ShortLogits is Logits for some rows of w: the first and the last ones, as many as first and last
// say, and those that between lists. The result [len(indices), first+last+len(between)] has them in
// this order. It is for devices on which an operator may have any number of parts: the CPU.
func (c *Context) ShortLogits(x kernels.Tensor, indices []int32, w *kernels.Weight,
	first, last int, between []int32) kernels.Tensor {
	s := &c.ops.shortlist
	if s.of != w {
		s.of, s.rows, s.weights = w, s.rows[:0], s.weights[:0]
	}
	x = c.Rows(x, indices)
	out := c.f32(x.Rows, first+last+len(between))
	mark := c.Mark()
	s.parts = s.parts[:0]
	at := s.part(out, 0, 0, first)
	at = s.part(out, at, w.N-last, w.N)
	for _, row := range between {
		at = s.part(out, at, int(row), int(row)+1)
	}
	for i := range s.parts { // not before: weights may have moved
		s.parts[i].W = &s.weights[i]
	}
	s.Linear = matmul.Linear{X: c.inOrder(x, w), Parts: s.parts, Split: c.Split}
	c.Device.Run(&s.Linear)
	c.Release(mark)
	return out
}

// part adds rows [from, to) of the weight as the next part, whose output begins at column at of
// out. It returns the column after it.
func (s *shortlist) part(out kernels.Tensor, at, from, to int) int {
	if from == to {
		return at
	}
	i, rows := len(s.parts), [2]int{from, to}
	switch {
	case i == len(s.rows):
		s.rows, s.weights = append(s.rows, rows), append(s.weights, s.of.Rows(from, to))
	case s.rows[i] != rows:
		s.rows[i], s.weights[i] = rows, s.of.Rows(from, to)
	}
	end := at + to - from
	s.parts = append(s.parts, matmul.Part{Out: out.Columns(at, end)})
	return end
}
