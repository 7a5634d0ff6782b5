package models_test

import (
	"fmt"
	"testing"

	"headroom/kernels"
	"headroom/kernels/kerneltest"
)

// TestSelectedRows checks that a row of logits has the same bits whichever rows are computed with
// it, on the CPU and on the simulated Metal device, where a chunk of a prompt may run on matrix
// units. It also passes over chunks without any logits.
func TestSelectedRows(t *testing.T) {
	for _, name := range tiny {
		devices := []kernels.Device{cpuDevice(t, 2)}
		if name == "gemma4_text" && long() && kerneltest.HasMetal() {
			devices = append(devices, kerneltest.Metal(t))
		}
		for _, d := range devices {
			t.Run(fmt.Sprintf("%s %s", name, d.Name()), func(t *testing.T) {
				const chunk = 40
				ids := readExpected(t, name)[4].IDs[:2*chunk]
				r := newTiny(t, d, name)
				pass := func(from int, rows ...int32) (logits [][]float32) {
					spans := []kernels.Span{{Rows: chunk, Pos: from, Pages: r.pages[0],
						Prefill: chunk}}
					flat, err := r.Step(ids[from:from+chunk], spans, rows)
					if err != nil {
						t.Fatal(err)
					}
					n := r.VocabSize()
					for i := range rows {
						logits = append(logits, append([]float32{}, flat[i*n:(i+1)*n]...))
					}
					return logits
				}
				var every []int32
				for i := range int32(chunk) {
					every = append(every, i)
				}
				pass(0, every...)
				all := pass(chunk, every...)
				for _, rows := range [][]int32{{chunk - 1}, {0, 1, 7, 8, 9, 30}, {9, 3}, {5, 5}} {
					if got := pass(0); len(got) != 0 {
						t.Fatalf("%d rows of logits, expected none", len(got))
					}
					for i, got := range pass(chunk, rows...) {
						if !equalBits([][]float32{got}, [][]float32{all[rows[i]]}) {
							t.Errorf("rows %d: row %d differs from that among all rows", rows,
								rows[i])
						}
					}
				}
			})
		}
	}
}
