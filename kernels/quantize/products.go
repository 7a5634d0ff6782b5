package quantize

// Sums of outer products in float64, which a Hessian and the feedback of errors consist of.

import (
	"sync"
	"sync/atomic"

	"headroom/kernels/cpu"
)

// matrix is a view of a float64 matrix: element (i, j) is data[i*stride+j].
type matrix struct {
	data   []float64
	stride int
}

// at returns the view that begins at element (i, j).
func (m matrix) at(i, j int) matrix { return matrix{m.data[i*m.stride+j:], m.stride} }

// addOuter adds sign * aᵀ b to c [rows, cols]. a is [depth, rows] and b is [depth, cols]. Each
// element sums over depth in ascending order, and is added once. So the bits depend on neither the
// instruction set nor the size of the view.
func addOuter(isa cpu.ISA, c, a, b matrix, rows, cols, depth int, sign float64) {
	if rows == 0 || cols == 0 || depth == 0 {
		return
	}
	if isa != cpu.Generic {
		nativeOuter(isa, c, a, b, rows, cols, depth, sign)
		return
	}
	sums := make([]float64, cols)
	for i := range rows {
		clear(sums)
		for k := range depth {
			x := a.data[k*a.stride+i]
			for j, y := range b.data[k*b.stride:][:cols] {
				sums[j] += float64(x * y) // the conversion forbids a fused multiply-add
			}
		}
		for j, s := range sums {
			c.data[i*c.stride+j] += float64(sign * s)
		}
	}
}

// each calls do for 0 to n-1, on so many goroutines. Calls must not depend on each other.
func each(threads, n int, do func(i int)) {
	if threads <= 1 || n <= 1 {
		for i := range n {
			do(i)
		}
		return
	}
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(threads, n) {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				do(i)
			}
		})
	}
	workers.Wait()
}
