package kernels

import "math/rand/v2"

// Timing is an operator to be timed on a GPU, at the size of a real model.
type Timing struct {
	Name         string
	Bytes, Flops int64 // moved and computed by one operator
	// New makes operators that do the same work on different memory. Callers ask for enough copies
	// to exceed the GPU's caches.
	New func(d Device, r *rand.Rand, copies int) []Op
}

// Timings returns a Timing for each case that has Bytes or Flops.
func Timings(cases []Case) []Timing {
	var all []Timing
	for _, c := range cases {
		if c.Bytes == 0 && c.Flops == 0 {
			continue
		}
		operators := func(d Device, r *rand.Rand, copies int) []Op {
			var ops []Op
			for range copies {
				op, _ := c.New(d, r)
				ops = append(ops, op)
			}
			return ops
		}
		all = append(all, Timing{Name: c.Name, Bytes: c.Bytes, Flops: c.Flops, New: operators})
	}
	return all
}
