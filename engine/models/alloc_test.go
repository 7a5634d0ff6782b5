//go:build cgo

package models_test

import (
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
