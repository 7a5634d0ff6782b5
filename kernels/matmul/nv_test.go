package matmul

import (
	"math/rand/v2"
	"testing"

	"headroom/kernels"
	"headroom/kernels/kerneltest"
)

// BenchmarkNV times the products of Qwen3.5-35B-A3B and Qwen3.5-27B: decoding (1 to 8 rows),
// prefill and experts.
func BenchmarkNV(b *testing.B) { kerneltest.BenchNV(b, LargeTimings()) }

// TestCopies checks that copies of an Experts share the weights but not the expert IDs.
func TestCopies(t *testing.T) {
	d := kernels.NewReference()
	defer d.Close()
	s := shape{m: 1, k: 64, n: []int{8}, experts: 4, choices: 2, bits: 4, group: 64,
		dtype: kernels.BF16}
	ops := s.copies(d, rand.New(rand.NewPCG(1, 2)), 2)
	a, b := ops[0].(*Experts), ops[1].(*Experts)
	if a.Parts[0].W != b.Parts[0].W || a.IDs.Buffer == b.IDs.Buffer {
		t.Errorf("got IDs %v and %v, expected the same weights and separate IDs", a.IDs.Int32s(),
			b.IDs.Int32s())
	}
}
