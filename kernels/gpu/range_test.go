package gpu

import (
	"fmt"
	"testing"

	"headroom/kernels"
)

// splitWeight returns a float32 weight whose data begin at byte at of b.
func splitWeight(b *kernels.Buffer, experts, n, k, at int) *kernels.Weight {
	return &kernels.Weight{Experts: experts, N: n, K: k, Data: kernels.Tensor{Buffer: b, Offset: at,
		DType: kernels.F32, Rows: experts * n, Cols: k, Stride: k}}
}

// TestRanges checks the ranges of weights in buffers of at most eight pages, which begin seven
// pages apart.
func TestRanges(t *testing.T) {
	const k = page / 4 // a row is a page
	m := &limited{longest: 8 * page}
	d, err := New(m)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	b, whole := d.NewBuffer(40*page), d.NewBuffer(8*page)
	for _, c := range []struct {
		name     string
		w, other *kernels.Weight
		want     string
	}{
		{"in one buffer", splitWeight(whole, 2, 3, k, page), nil, "[{0 2 0 3}]"},
		{"a matrix at the start", splitWeight(b, 1, 30, k, 0), nil,
			"[{0 1 0 8} {0 1 8 7} {0 1 15 7} {0 1 22 7} {0 1 29 1}]"},
		{"a row across the end of a buffer", splitWeight(b, 1, 9, k, page/2), nil,
			"[{0 1 0 7} {0 1 7 2}]"},
		{"rows that fit in the second buffer", splitWeight(b, 1, 8, k, 7*page), nil,
			"[{0 1 0 8}]"},
		{"whole experts", splitWeight(b, 10, 2, k, 0), nil, "[{0 4 0 2} {4 3 0 2} {7 3 0 2}]"},
		{"an expert across the end of a buffer", splitWeight(b, 5, 3, k, 0), nil,
			"[{0 2 0 3} {2 1 0 2} {2 1 2 1} {3 2 0 3}]"},
		{"experts longer than a buffer", splitWeight(b, 2, 12, k, page), nil,
			"[{0 1 0 7} {0 1 7 5} {1 1 0 2} {1 1 2 7} {1 1 9 3}]"},
		{"the shorter range of two weights", splitWeight(b, 1, 8, k, 7*page),
			splitWeight(b, 1, 8, k, 9*page), "[{0 1 0 6} {0 1 6 2}]"},
	} {
		var got []Range
		for at := 0; at < c.w.Experts*c.w.N; {
			r := RangeFrom(at, c.w, c.other)
			for _, w := range []*kernels.Weight{c.w, c.other} {
				if w == nil {
					continue
				}
				data := ReadWeight(w, r).Data
				if _, err := data.memory.binding(data.from, data.bytes); err != nil {
					t.Errorf("%s: range %v: %v", c.name, r, err)
				}
			}
			got = append(got, r)
			at += r.Experts * r.Rows
		}
		if fmt.Sprint(got) != c.want {
			t.Errorf("%s: got %v, expected %s", c.name, got, c.want)
		}
	}
	// not even a row lies in one buffer
	w := splitWeight(b, 1, 2, 9*k, 0)
	if r := RangeFrom(0, w); r != (Range{0, 1, 0, 2}) {
		t.Errorf("rows longer than a buffer: got %v, expected both rows", r)
	}
	if data := ReadWeight(w, RangeFrom(0, w)).Data; true {
		if _, err := data.memory.binding(data.from, data.bytes); err == nil {
			t.Error("rows longer than a buffer are bound")
		}
	}
}
