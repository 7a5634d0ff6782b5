package activation

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"headroom/kernels"
	"headroom/kernels/cpu"
	"headroom/kernels/kerneltest"
)

func TestMetalCases(t *testing.T) { kerneltest.RunMetal(t, Cases()) }

// TestMetalGivesTheBitsOfTheCPU compares every function with the C kernels for inputs of all
// magnitudes, with one and with four elements per thread, in rows and as one row.
func TestMetalGivesTheBitsOfTheCPU(t *testing.T) {
	const m, n = 5, 68
	isas := cpu.Available()
	isa := isas[len(isas)-1]
	if isa == cpu.Generic {
		t.Skip("this build has no kernels in C")
	}
	gpu, c := kerneltest.Metal(t), kernels.NewCPU(cpu.Options{ISA: isa, Threads: 1})
	defer c.Close()
	for _, o := range operators {
		run := func(d kernels.Device, from, to, gap int) []byte {
			r := rand.New(rand.NewPCG(5, 6))
			x, y := kernels.NewTensor(d, kernels.F32, m, n+gap),
				kernels.NewTensor(d, kernels.F32, m, n+gap)
			for i := range m {
				for j := range n {
					scale := math.Exp(float64(j%12) - 6) // standard deviations from e^-6 to e^5
					x.Row(i)[j], y.Row(i)[j] = float32(scale*r.NormFloat64()),
						float32(scale*r.NormFloat64())
				}
			}
			out := kernels.NewTensor(d, kernels.F32, m, n)
			d.Run(o.build(x.Columns(from, to), y.Columns(from, to), out.Columns(from, to)))
			sync(t, d)
			return kerneltest.Elements(out.Columns(from, to))
		}
		for _, v := range []struct {
			name          string
			from, to, gap int
		}{{"one row of vectors", 0, n, 0}, {"rows of vectors", 0, n, 4},
			{"rows of elements", 0, n, 1}, {"an odd first column", 1, n, 0},
			{"an odd width", 4, n - 3, 0}} {
			if !bytes.Equal(run(gpu, v.from, v.to, v.gap), run(c, v.from, v.to, v.gap)) {
				t.Errorf("%s, %s: bits differ from %s", o.name, v.name, c.Name())
			}
		}
	}
}
