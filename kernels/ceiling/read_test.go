package ceiling

import (
	"fmt"
	"testing"
	"time"

	"headroom/kernels"
	"headroom/kernels/cpu"
	"headroom/kernels/kerneltest"
)

func TestCases(t *testing.T)      { kerneltest.Run(t, Cases()) }
func BenchmarkCases(b *testing.B) { kerneltest.Bench(b, Cases()) }
func BenchmarkNV(b *testing.B)    { kerneltest.BenchNV(b, kerneltest.Timings(Cases())) }

func TestMetalCases(t *testing.T) { kerneltest.RunMetal(t, Cases()) }

// TestPatternsReadEveryElement checks that every pattern reads every element once, also in rows
// that end within a block. Sums of small integers are exact in any order.
func TestPatternsReadEveryElement(t *testing.T) {
	for _, isa := range cpu.Available() {
		d := kernels.NewCPU(cpu.Options{ISA: isa, Threads: 2})
		for _, cols := range []int{64, 192, 512, 512 + 64, 4096 - 64} {
			o := &Read{X: kernels.NewTensor(d, kernels.F32, 3, cols),
				Sums: kernels.NewTensor(d, kernels.F32, 3, 1)}
			for i, x := 0, o.X.Float32s(); i < len(x); i++ {
				x[i] = float32(i * 7919 % 1021)
			}
			for o.Pattern = range Patterns {
				o.Sums.Float32s()[0] = -1
				d.Run(o)
				for r := range 3 {
					var want float32
					for _, v := range o.X.Row(r) {
						want += v
					}
					if got := o.Sums.Row(r)[0]; got != want {
						t.Errorf("%s, %+v, row %d of %d: sum %g, expected %g", isa,
							Patterns[o.Pattern], r, cols, got, want)
					}
				}
			}
		}
		d.Close()
	}
	m := kernels.NewDryRun()
	o := &Read{X: kernels.NewTensor(m, kernels.F32, 1, 64),
		Sums:    kernels.NewTensor(m, kernels.F32, 1, 1),
		Pattern: len(Patterns)}
	if o.Check() == nil {
		t.Error("Check accepted a pattern that does not exist")
	}
}

// BenchmarkPatterns reports the GB/s of each pattern on this machine. -benchtime 1x is enough.
func BenchmarkPatterns(b *testing.B) {
	const rows, cols = 2048, 64 << 10
	d := kernels.NewCPU(cpu.Options{})
	defer d.Close()
	o := &Read{X: kernels.NewTensor(d, kernels.F32, rows, cols),
		Sums: kernels.NewTensor(d, kernels.F32, rows, 1)}
	for i, x := 0, o.X.Float32s(); i < len(x); i += 1024 {
		// Touch every page: untouched pages all read from one page of zeros.
		x[i] = 1
	}
	for b.Loop() {
		rates, err := o.PatternRates(d, 2*time.Second)
		if err != nil {
			b.Fatal(err)
		}
		for i, p := range Patterns {
			name := fmt.Sprintf("GB/s-%dx%d+%d", p.Streams, p.Lines, p.PrefetchBytes)
			b.ReportMetric(rates[i]/1e9, name)
		}
	}
}
