package matmul

import (
	"math/rand/v2"
	"testing"

	"headroom/kernels"
	"headroom/kernels/kerneltest"
)

// BenchmarkNV times the products of Qwen3.5-35B-A3B and Qwen3.5-27B: decoding (1 to 8 rows),
// prefill and experts.
func BenchmarkNV(b *testing.B) {
	var all []kerneltest.Timing
	for _, s := range []shape{
		{m: 1, k: 2048, n: []int{248320}, bits: 4, group: 64},
		{m: 2, k: 2048, n: []int{248320}, bits: 4, group: 64},
		{m: 4, k: 2048, n: []int{248320}, bits: 4, group: 64},
		{m: 8, k: 2048, n: []int{248320}, bits: 4, group: 64},
		{m: 1, k: 2048, n: []int{248320}, bits: 8, group: 64},
		{m: 8, k: 2048, n: []int{248320}, bits: 8, group: 64},
		{m: 1, k: 2048, n: []int{248320}, bits: 3, group: 64},
		{m: 1, k: 2048, n: []int{65536}},
		{m: 1, k: 2048, n: []int{12288}, bits: 4, group: 64},
		{m: 2, k: 2048, n: []int{12288}, bits: 4, group: 64},
		{m: 4, k: 2048, n: []int{12288}, bits: 4, group: 64},
		{m: 8, k: 2048, n: []int{12288}, bits: 4, group: 64},
		{m: 1, k: 4096, n: []int{2048}, bits: 4, group: 64},
		{m: 2, k: 4096, n: []int{2048}, bits: 4, group: 64},
		{m: 4, k: 4096, n: []int{2048}, bits: 4, group: 64},
		{m: 8, k: 4096, n: []int{2048}, bits: 4, group: 64},
		{m: 1, k: 5120, n: []int{17408, 17408}, bits: 4, group: 64},
		{m: 1, k: 17408, n: []int{5120}, bits: 4, group: 64},
		{m: 8, k: 17408, n: []int{5120}, bits: 4, group: 64},
		{m: 512, k: 2048, n: []int{12288}, bits: 4, group: 64, prefill: Prefill{{0, 512}}},
		{m: 512, k: 5120, n: []int{17408}, bits: 4, group: 64, prefill: Prefill{{0, 512}}},
		{m: 1, k: 2048, n: []int{512, 512}, experts: 256, choices: 8, bits: 4, group: 64},
		{m: 2, k: 2048, n: []int{512, 512}, experts: 256, choices: 8, bits: 4, group: 64},
		{m: 1, k: 512, n: []int{2048}, experts: 256, choices: 8, perPair: true, bits: 4, group: 64},
		{m: 2, k: 512, n: []int{2048}, experts: 256, choices: 8, perPair: true, bits: 4, group: 64},
		{m: 512, k: 2048, n: []int{512, 512}, experts: 256, choices: 8, bits: 4, group: 64,
			prefill: Prefill{{0, 512}}},
		{m: 1, k: 2048, n: []int{248320}, bits: 4, group: 32, dtype: kernels.U8},
		{m: 4, k: 2048, n: []int{248320}, bits: 4, group: 32, dtype: kernels.U8},
		{m: 512, k: 2048, n: []int{12288}, bits: 4, group: 32, dtype: kernels.U8,
			prefill: Prefill{{0, 512}}},
		{m: 1, k: 2048, n: []int{512, 512}, experts: 256, choices: 8, bits: 4, group: 32,
			dtype: kernels.U8},
	} {
		if s.dtype != kernels.U8 { // MXFP4 has U8 scales
			s.dtype = kernels.BF16
		}
		c := list([]shape{s})[0]
		all = append(all, kerneltest.Timing{Name: c.Name, Bytes: c.Bytes, Flops: c.Flops,
			New: s.copies})
	}
	kerneltest.BenchNV(b, all)
}

// copies returns n operators that read different memory. Each has separate weights or, if s has
// experts, selects other experts of the same weights.
func (s shape) copies(d kernels.Device, r *rand.Rand, n int) []kernels.Op {
	var ops []kernels.Op
	for i := range n {
		if i == 0 || s.experts == 0 {
			op, _ := s.build(d, r)
			ops = append(ops, op)
			continue
		}
		op := *ops[0].(*Experts)
		op.IDs = kernels.NewTensor(d, kernels.I32, s.m, s.choices)
		for j := range op.IDs.Int32s() {
			op.IDs.Int32s()[j] = int32(r.IntN(s.experts))
		}
		ops = append(ops, &op)
	}
	return ops
}

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
