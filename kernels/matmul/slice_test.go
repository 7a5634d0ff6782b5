package matmul

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"headroom/kernels"
	"headroom/kernels/cpu"
)

// TestSlicesOfFourBits checks that few rows and codes of 4 bits have the bits of plain Go on every
// instruction set: every number of rows up to nine, rows of a weight that fill slices and that do
// not, and lengths that end within a chunk, within sixteen units and at the end of sixteen.
func TestSlicesOfFourBits(t *testing.T) {
	base := kernels.NewReference()
	defer base.Close()
	r := rand.New(rand.NewPCG(7, 8))
	for _, c := range []struct {
		n, k, group int
		dtype       kernels.DType
	}{
		{67, 1024, 64, kernels.BF16}, {32, 2048, 64, kernels.F16}, {16, 64, 64, kernels.BF16},
		{50, 1600, 64, kernels.BF16}, {33, 1024, 128, kernels.BF16}, {34, 512, 32, kernels.BF16},
		{48, 544, 32, kernels.BF16}, {35, 96, 32, kernels.F32}, {17, 1024, 32, kernels.BF16},
		{37, 512, 32, kernels.U8}, {32, 1056, 32, kernels.U8}, {64, 736, 32, kernels.U8},
	} {
		w := kernels.RandomWeight(base, r, 1, c.n, c.k, 4, c.group, c.dtype,
			1/math.Sqrt(float64(c.k)))
		x := kernels.RandomTensor(base, r, 9, c.k, 1)
		generic := kernels.NewCPU(cpu.Options{ISA: cpu.Generic, Threads: 1})
		want := product(generic, w, x)
		generic.Close()
		for _, isa := range cpu.Available() {
			d := kernels.NewCPU(cpu.Options{ISA: isa, Threads: 2})
			for rows := 1; rows <= 9; rows++ {
				if got := product(d, w, x.RowRange(0, rows)); !bytes.Equal(got,
					want[:4*c.n*rows]) {
					t.Errorf("%s [%d, %d], %s, %d rows: differs from plain Go",
						w.Format(), c.n, c.k, isa, rows)
				}
			}
			d.Close()
		}
	}
}
