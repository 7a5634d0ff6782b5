package matmul

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"headroom/kernels"
	"headroom/kernels/cpu"
)

// TestStretchesStartAtOwnRows checks that a worker's stretches begin with its first row, stay
// within its rows, cover nothing twice, and have about readAheadBytes.
func TestStretchesStartAtOwnRows(t *testing.T) {
	const threads = 3
	d := kernels.NewCPU(cpu.Options{Threads: threads})
	defer d.Close()
	c := cpu.NewContext(cpu.Options{Threads: threads})
	defer c.Close()
	for _, s := range []struct{ k, n, m, bits int }{{1024, 3072, 512, 4}, {4096, 40, 40, 8},
		{256, 33, 1, 0}, {64, 5000, 9000, 2}, {2048, 1024, 1024, 4}} {
		t.Run(fmt.Sprint(s), func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			o := &Linear{X: kernels.NewTensor(d, kernels.F32, 1, s.k)}
			for _, n := range []int{s.n, s.m} {
				o.Parts = append(o.Parts,
					Part{W: kernels.RandomWeight(d, r, 1, n, s.k, s.bits, 64, kernels.BF16, 1)})
			}
			for worker := range threads {
				own := map[uintptr]bool{} // bytes of its rows
				var first uintptr
				codes := 0
				blocks := blocks(o.Parts)
				eachPart(o.Parts, blocks*worker/threads, blocks*(worker+1)/threads,
					func(p *Part, from, to int) {
						for _, w := range []kernels.Tensor{p.W.Data, p.W.Scales, p.W.Biases} {
							if w.IsNone() {
								continue
							}
							at := uintptr(w.Ptr())
							if first == 0 {
								first = at + uintptr(from*rowBytes(w))
							}
							end := at + uintptr(to*rowBytes(w))
							for b := at + uintptr(from*rowBytes(w)); b < end; b++ {
								own[b] = true
							}
						}
					})
				all, rows := o.Stretches(c, worker), len(own)
				if len(own) == 0 && len(all) == 0 {
					continue
				}
				if len(all) == 0 || all[0].At != first {
					t.Fatalf("worker %d: got %v, expected to begin at %#x", worker, all, first)
				}
				for _, stretch := range all {
					if stretch.Bytes <= 0 {
						t.Fatalf("worker %d: an empty stretch in %v", worker, all)
					}
					for b := stretch.At; b < stretch.At+uintptr(stretch.Bytes); b++ {
						if !own[b] {
							t.Fatalf("worker %d: byte %#x is not its own, or comes twice", worker,
								b)
						}
						delete(own, b)
					}
					codes += stretch.Bytes
				}
				if most := readAheadBytes*5/4 + 8*s.k*4; codes > most ||
					codes < min(rows, readAheadBytes)/2 {
					t.Errorf("worker %d: got %d bytes of %d, expected about %d", worker, codes,
						rows, readAheadBytes)
				}
			}
		})
	}
}
