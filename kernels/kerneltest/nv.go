//go:build nv && linux

package kerneltest

// Cases on an NVIDIA GPU: the .metal text that a Mac runs, on hardware, with concurrent dispatches.

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"headroom/kernels"
	"headroom/kernels/gpu"
	"headroom/metal/nv"
)

// NV opens the NVIDIA GPU until the test ends, or skips the test where there is none. compileOnly
// reports that the device compiles kernels and computes nothing.
func NV(t testing.TB, o nv.Options) (d *nv.Device, compileOnly bool) {
	t.Helper()
	e := nv.FromEnvironment()
	o.CacheDir, o.CompileOnly = e.CacheDir, e.CompileOnly
	d, err := nv.Open(o)
	if errors.Is(err, nv.ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d, o.CompileOnly
}

// runNV runs checkOnNV as a subtest. It reports whether HEADROOM_NV or HEADROOM_NV_CACHE asks for
// the NVIDIA device, so that the cases run there only.
func runNV(t *testing.T, cases []kernels.Case) (only bool) {
	t.Helper()
	t.Run("nv", func(t *testing.T) { checkOnNV(t, cases) })
	return nv.FromEnvironment() != (nv.Options{})
}

// checkOnNV checks every case whose operator has a Metal kernel against the reference. Concurrent
// dispatches and serial ones must give the same bits.
func checkOnNV(t *testing.T, cases []kernels.Case) {
	concurrent, compileOnly := NV(t, nv.Options{})
	serial, _ := NV(t, nv.Options{Streams: 1})
	reference := kernels.NewReference()
	defer reference.Close()
	for _, c := range cases {
		op, _ := c.New(reference, c.Rand())
		if _, ok := op.(gpu.Op); !ok {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			got, err := metalOutputs(t, concurrent, c, map[string]bool{})
			if err != nil {
				t.Fatalf("%s: %v", concurrent.Facts().Name, err)
			}
			if compileOnly {
				return
			}
			compare(t, concurrent.Facts().Name, c, got, outputs(reference, c))
			again, err := metalOutputs(t, serial, c, map[string]bool{})
			if err != nil {
				t.Fatalf("%s: %v", serial.Facts().Name, err)
			}
			if !slices.EqualFunc(got, again, equal) {
				t.Errorf("%s: serial dispatches give other bits than concurrent ones",
					concurrent.Facts().Name)
			}
		})
	}
}

const (
	coldBytes    = 256 << 20 // total size of an operator's copies, larger than the GPU's cache
	maxCopies    = 128
	batches      = 5
	maxBatchRuns = 200 // operators submitted together
	minBatchRuns = 20
	batchSeconds = 0.05 // approximate duration of a batch
)

// BenchNV times operators on an NVIDIA GPU, one after another. It reports the best of several
// batches by the GPU's clock, with GB/s and its share of the rate at which the GPU copies memory.
// Run it with -benchtime 1x.
func BenchNV(b *testing.B, timings []Timing) {
	m, compileOnly := NV(b, nv.Options{Streams: 1})
	var copyRate float64 // bytes per second
	if !compileOnly {
		rate, err := m.CopyBytesPerSecond()
		if err != nil {
			b.Fatal(err)
		}
		copyRate = rate
	}
	for _, x := range timings {
		b.Run(x.Name, func(b *testing.B) {
			d, err := gpu.New(m)
			if err != nil {
				b.Fatal(err)
			}
			defer d.Close()
			n := maxCopies
			if x.Bytes > 0 {
				n = int(max(1, min(maxCopies, coldBytes/x.Bytes)))
			}
			if compileOnly {
				n = 1
			}
			ops := x.New(d, rand.New(rand.NewPCG(1, 2)), n)
			batch := func(runs int) (secondsPerRun float64) {
				before := m.Seconds()
				for i := range runs {
					d.Run(ops[i%len(ops)])
				}
				if err := d.Sync(); err != nil {
					b.Fatal(err)
				}
				return (m.Seconds() - before) / float64(runs)
			}
			batch(len(ops))
			runs := maxBatchRuns
			if one := batch(len(ops)); one > 0 {
				runs = max(minBatchRuns, min(maxBatchRuns, int(batchSeconds/one)))
			}
			best := batch(runs)
			for range batches {
				best = min(best, batch(runs))
			}
			if compileOnly {
				return
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(best*1e6, "us")
			b.ReportMetric(float64(x.Bytes)/best/1e9, "GB/s")
			b.ReportMetric(float64(x.Flops)/best/1e12, "TFLOP/s")
			b.ReportMetric(100*float64(x.Bytes)/best/copyRate, "%copy")
		})
	}
}
