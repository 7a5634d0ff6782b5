package matmul

// The products that are timed on GPUs: those of Qwen3.5-35B-A3B and Qwen3.5-27B, and a large one in
// every packing.

import (
	"fmt"
	"math/rand/v2"

	"headroom/kernels"
)

// LargeTimings returns the products of the tables in metal/PEERS.md and kernels/gpu/PERF.md.
func LargeTimings() []kernels.Timing {
	var all []kernels.Timing
	for _, s := range largeShapes() {
		if s.dtype != kernels.U8 { // MXFP4 has U8 scales
			s.dtype = kernels.BF16
		}
		c := list([]shape{s})[0]
		all = append(all, kernels.Timing{Name: s.title(), Bytes: c.Bytes, Flops: c.Flops,
			New: s.copies})
	}
	return all
}

func largeShapes() (all []shape) {
	for _, dense := range []shape{{k: 2048, n: []int{248320}}, {k: 2048, n: []int{12288}},
		{k: 4096, n: []int{2048}}, {k: 5120, n: []int{17408}}, {k: 17408, n: []int{5120}}} {
		for _, rows := range []int{1, 2, 4, 8} {
			s := dense
			s.m, s.bits, s.group = rows, 4, 64
			all = append(all, s)
		}
	}
	prompt := Prefill{{0, 512}}
	return append(all,
		shape{m: 1, k: 2048, n: []int{248320}, bits: 3, group: 64},
		shape{m: 1, k: 2048, n: []int{248320}, bits: 5, group: 64},
		shape{m: 1, k: 2048, n: []int{248320}, bits: 6, group: 64},
		shape{m: 1, k: 2048, n: []int{248320}, bits: 8, group: 64},
		shape{m: 8, k: 2048, n: []int{248320}, bits: 8, group: 64},
		shape{m: 1, k: 2048, n: []int{248320}, bits: 4, group: 32, dtype: kernels.U8},
		shape{m: 4, k: 2048, n: []int{248320}, bits: 4, group: 32, dtype: kernels.U8},
		shape{m: 1, k: 2048, n: []int{65536}},
		shape{m: 1, k: 5120, n: []int{17408, 17408}, bits: 4, group: 64},
		shape{m: 512, k: 2048, n: []int{12288}, bits: 4, group: 64, prefill: prompt},
		shape{m: 512, k: 5120, n: []int{17408}, bits: 4, group: 64, prefill: prompt},
		shape{m: 512, k: 2048, n: []int{12288}, bits: 4, group: 32, dtype: kernels.U8,
			prefill: prompt},
		shape{m: 1, k: 2048, n: []int{512, 512}, experts: 256, choices: 8, bits: 4, group: 64},
		shape{m: 2, k: 2048, n: []int{512, 512}, experts: 256, choices: 8, bits: 4, group: 64},
		shape{m: 4, k: 2048, n: []int{512, 512}, experts: 256, choices: 8, bits: 4, group: 64},
		shape{m: 1, k: 512, n: []int{2048}, experts: 256, choices: 8, perPair: true, bits: 4,
			group: 64},
		shape{m: 2, k: 512, n: []int{2048}, experts: 256, choices: 8, perPair: true, bits: 4,
			group: 64},
		shape{m: 512, k: 2048, n: []int{512, 512}, experts: 256, choices: 8, bits: 4, group: 64,
			prefill: prompt},
		shape{m: 1, k: 2048, n: []int{512, 512}, experts: 256, choices: 8, bits: 4, group: 32,
			dtype: kernels.U8})
}

// title is the name of a product in the tables: "[12288, 2048] 4-bit, 1 row".
func (s shape) title() string {
	format := fmt.Sprintf("%d-bit", s.bits)
	switch {
	case s.bits == 0:
		format = "bfloat16"
	case s.mode() != kernels.Affine:
		format = s.mode().String()
	}
	rows := "1 row"
	if s.m > 1 {
		rows = fmt.Sprintf("%d rows", s.m)
	}
	parts := ""
	if len(s.n) > 1 {
		parts = fmt.Sprintf("%d x ", len(s.n))
	}
	if s.experts > 0 {
		parts = "experts: " + parts
	}
	return fmt.Sprintf("%s[%d, %d] %s, %s", parts, s.n[0], s.k, format, rows)
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
