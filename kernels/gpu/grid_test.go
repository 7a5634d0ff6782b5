package gpu

import (
	"errors"
	"slices"
	"testing"

	"headroom/kernels"
	"headroom/metal/sim"
)

// placeSource has the kernel place. It writes 1000*slot + position for each row of a batch, and -1
// for rows outside of all spans.
var placeSource = &Source{Name: "gpu/grid_test.metal", Text: `
#include <metal_stdlib>
#include "common/span.h"
using namespace metal;
struct P { int spans; };
kernel void place(constant P& p [[buffer(0)]], device const Span* spans [[buffer(1)]], device int* out [[buffer(2)]],
                  uint i [[thread_position_in_grid]]) {
  const int row = int(i);
  const int s = span_of(spans, p.spans, row);
  out[row] = s == p.spans ? -1 : spans[s].pos + (row - spans[s].row) + 1000 * spans[s].slot;
}
`}

type placeParams struct{ Spans int32 }

var place = NewKernel[placeParams](placeSource, "place")

func simulated(t *testing.T) *Device {
	t.Helper()
	m, err := sim.Open(sim.Options{Check: true})
	if errors.Is(err, sim.ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	d, err := New(m)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

func TestSpans(t *testing.T) {
	d := simulated(t)
	for _, c := range []struct {
		spans []kernels.Span
		want  []int32
	}{
		{nil, []int32{-1, -1, -1, -1, -1, -1, -1, -1}},
		{[]kernels.Span{{Rows: 8, Pos: 5}}, []int32{5, 6, 7, 8, 9, 10, 11, 12}},
		{[]kernels.Span{{Row: 1, Rows: 2, Slot: 3}, {Row: 4, Rows: 1, Pos: 7},
			{Row: 5, Rows: 2, Pos: 1, Slot: 1}}, []int32{-1, 3000, 3001, -1, 7, 1001, 1002, -1}},
		{[]kernels.Span{{Row: 7, Rows: 1, Pos: 4}}, []int32{-1, -1, -1, -1, -1, -1, -1, 4}},
	} {
		out := kernels.NewTensor(d, kernels.I32, 1, 8)
		place.Dispatch(&d.context, placeParams{int32(len(c.spans))}, Rows(1, 8),
			d.context.Spans(c.spans), Write(out))
		if err := d.Sync(); err != nil {
			t.Fatal(err)
		}
		if got := out.Int32s(); !slices.Equal(got, c.want) {
			t.Errorf("spans %v: got %v, expected %v", c.spans, got, c.want)
		}
	}
}

func TestAligned16(t *testing.T) {
	d := simulated(t)
	x := kernels.NewTensor(d, kernels.F32, 3, 16)
	for _, c := range []struct {
		t    kernels.Tensor
		want bool
	}{
		{x, true}, {kernels.Tensor{}, true}, {x.Columns(4, 8), true}, {x.Columns(2, 6), false},
		{x.Columns(4, 9), false},
		{kernels.NewTensor(d, kernels.F32, 3, 15), false},
		{kernels.NewTensor(d, kernels.F16, 3, 8), true},
	} {
		if got := Aligned16(c.t); got != c.want {
			t.Errorf("%v from byte %d: got %t", c.t, c.t.Offset, got)
		}
	}
	if Aligned16(x, x.Columns(1, 5)) {
		t.Error("two tensors, one of them not aligned: got true")
	}
}
