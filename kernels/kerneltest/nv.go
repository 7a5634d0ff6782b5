package kerneltest

// Cases on an NVIDIA GPU: the .metal text that a Mac runs, on hardware, with dispatches at the same
// time.

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"headroom/kernels"
	"headroom/kernels/gpu"
	"headroom/metal/nv"
)

// NV opens the NVIDIA GPU, closed when the test ends. Without one it skips the test. compiles tells
// that the device only compiles.
func NV(t testing.TB, o nv.Options) (d *nv.Device, compiles bool) {
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

// runNV checks every case whose operator has a Metal kernel against the reference, twice, with
// dispatches side by side and one after another, which must give the same bits.
func runNV(t *testing.T, cases []kernels.Case) {
	together, compiles := NV(t, nv.Options{})
	single, _ := NV(t, nv.Options{Streams: 1})
	reference := kernels.NewReference()
	defer reference.Close()
	for _, c := range cases {
		op, _ := c.New(reference, c.Rand())
		if _, ok := op.(gpu.Op); !ok {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			got := metalOutputs(t, together, c, map[string]bool{})
			if got == nil || compiles {
				return
			}
			compare(t, together.Facts().Name, c, got, outputs(reference, c))
			if again := metalOutputs(t, single, c, map[string]bool{}); !slices.EqualFunc(got, again,
				equal) {
				t.Errorf("%s: a second run gives other bits", together.Facts().Name)
			}
		})
	}
}

// Timing is work to be timed on a GPU, at the size of a real model.
type Timing struct {
	Name         string
	Bytes, Flops int64 // that one operator must move and do
	// New makes operators that do the same with other memory, so many that a GPU's cache does not
	// help: coldBytes in all, if they can.
	New func(d kernels.Device, r *rand.Rand, copies int) []kernels.Op
}

// Timings are the cases worth timing.
func Timings(cases []kernels.Case) []Timing {
	var all []Timing
	for _, c := range cases {
		if c.Bytes == 0 && c.Flops == 0 {
			continue
		}
		all = append(all, Timing{c.Name, c.Bytes, c.Flops,
			func(d kernels.Device, r *rand.Rand, copies int) []kernels.Op {
				var ops []kernels.Op
				for range copies {
					op, _ := c.New(d, r)
					ops = append(ops, op)
				}
				return ops
			}})
	}
	return all
}

const (
	coldBytes   = 256 << 20
	mostCopies  = 128
	batches     = 5
	batchRuns   = 200 // operators of a batch: they go to the GPU together
	leastTimed  = 20
	longestTime = 0.05 // seconds of a batch, about
)

// BenchNV times work on an NVIDIA GPU, one operator after another: the best of several batches, by
// the GPU's clock, with GB/s and its share of what the GPU copies at. Run it with -benchtime 1x.
func BenchNV(b *testing.B, timings []Timing) {
	m, compiles := NV(b, nv.Options{Streams: 1})
	var copies float64
	if !compiles {
		rate, err := m.CopyBytesPerSecond()
		if err != nil {
			b.Fatal(err)
		}
		copies = rate
	}
	for _, x := range timings {
		b.Run(x.Name, func(b *testing.B) {
			d, err := gpu.New(m)
			if err != nil {
				b.Fatal(err)
			}
			defer d.Close()
			n := mostCopies
			if x.Bytes > 0 {
				n = int(max(1, min(mostCopies, coldBytes/x.Bytes)))
			}
			if compiles {
				n = 1
			}
			ops := x.New(d, rand.New(rand.NewPCG(1, 2)), n)
			batch := func(runs int) float64 {
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
			runs := batchRuns
			if one := batch(len(ops)); one > 0 {
				runs = max(leastTimed, min(batchRuns, int(longestTime/one)))
			}
			best := batch(runs)
			for range batches {
				best = min(best, batch(runs))
			}
			if compiles {
				return
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(best*1e6, "us")
			b.ReportMetric(float64(x.Bytes)/best/1e9, "GB/s")
			b.ReportMetric(float64(x.Flops)/best/1e12, "TFLOP/s")
			b.ReportMetric(100*float64(x.Bytes)/best/copies, "%copy")
		})
	}
}
