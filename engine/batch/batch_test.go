package batch

import (
	"reflect"
	"testing"

	"headroom/kernels"
)

// TestSelect selects from two sequences: rows 0 to 4 are positions 10 to 14 of the first, and rows
// 5 to 7 are positions 0 to 2 of the second.
func TestSelect(t *testing.T) {
	first, second := []int32{3}, []int32{4}
	spans := []kernels.Span{{Rows: 5, Pos: 10, Pages: first, Slot: 1, Prefill: 4},
		{Row: 5, Rows: 3, Pages: second, Slot: 2, Prefill: 2, Adapter: 1}}
	var o Outputs
	for _, c := range []struct {
		rows []int32
		want []kernels.Span
	}{
		{[]int32{0, 1, 3, 4, 5, 7}, []kernels.Span{
			{Row: 0, Rows: 2, Pos: 10, Pages: first, Slot: 1, Prefill: 2},
			{Row: 2, Rows: 2, Pos: 13, Pages: first, Slot: 1, Prefill: 1},
			{Row: 4, Rows: 1, Pos: 0, Pages: second, Slot: 2, Prefill: 1, Adapter: 1},
			{Row: 5, Rows: 1, Pos: 2, Pages: second, Slot: 2, Adapter: 1}}},
		{[]int32{6}, []kernels.Span{
			{Rows: 1, Pos: 1, Pages: second, Slot: 2, Prefill: 1, Adapter: 1}}},
		{nil, []kernels.Span{}},
	} {
		if o.Select(c.rows, spans); !reflect.DeepEqual(o.Batch.Spans, c.want) {
			t.Errorf("rows %d: got spans %+v, expected %+v", c.rows, o.Batch.Spans, c.want)
		}
		if err := kernels.CheckSpans(o.Batch.Spans, len(c.rows)); err != nil {
			t.Errorf("rows %d: %v", c.rows, err)
		}
	}
}
