//go:build cgo

package models_test

import (
	"slices"
	"testing"

	"headroom/kernels"
)

// TestStepAllocatesNothing checks that a decode step of any architecture does not allocate on the
// Go heap, so that decoding never causes a garbage collection. The test needs cgo, because the
// plain Go kernels allocate scratch memory.
func TestStepAllocatesNothing(t *testing.T) {
	for _, name := range tiny {
		t.Run(name, func(t *testing.T) {
			r := newTiny(t, cpuDevice(t, 2), name)
			ids, rows := []int32{5}, []int32{0}
			spans := []kernels.Span{{Rows: 1, Pages: r.pages[0]}}
			got := testing.AllocsPerRun(50, func() {
				if _, err := r.Step(ids, spans, rows); err != nil {
					t.Fatal(err)
				}
				spans[0].Pos++
			})
			if got > 0 {
				t.Errorf("%g allocations per step, expected none", got)
			}
		})
	}
	t.Run("with a selection", func(t *testing.T) {
		r := newTiny(t, cpuDevice(t, 2), "qwen3")
		pages, ids, rows := r.pages[0], []int32{5}, []int32{0}
		// The second of the first three pages is selected, and the prompt ends in the fourth.
		spans := []kernels.Span{{Rows: 1, Pos: 100, Pages: pages, Compact: &kernels.Compact{
			Prompt: 100, First: 32, From: 96, Tokens: 32,
			Table: slices.Concat(pages[:2], pages[3:])}}}
		if got := testing.AllocsPerRun(20, func() {
			if _, err := r.Step(ids, spans, rows); err != nil {
				t.Fatal(err)
			}
			spans[0].Pos++
		}); got > 0 {
			t.Errorf("%g allocations per step, expected none", got)
		}
	})
	r, _ := newDemo(t, false)
	spans := []kernels.Span{{Rows: 1, Pages: r.pages}}
	ids, rows := []int32{5}, []int32{0}
	if got := testing.AllocsPerRun(20, func() {
		if _, err := r.Step(ids, spans, rows); err != nil {
			t.Fatal(err)
		}
		spans[0].Pos++
	}); got > 0 {
		t.Errorf("demo model: %g allocations per step, expected none", got)
	}
}
