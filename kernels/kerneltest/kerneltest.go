// Package kerneltest runs the cases of a kernel family. Run compares every instruction set with the
// scalar reference, and several numbers of threads with one. RunMetal compares the Metal kernels on
// the simulated device. Bench and BenchNV time cases.
package kerneltest

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"slices"
	"testing"

	"headroom/kernels"
	"headroom/kernels/cpu"
)

// Run checks every case on every instruction set of this machine. Under the race detector it looks
// for data races and for bits that depend on threads, and leaves out the reference.
func Run(t *testing.T, cases []kernels.Case) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			if (c.AbsTol != 0 || c.RelTol != 0) && c.Why == "" {
				t.Errorf("case %s allows a difference (%g + %g*|x|) without saying why", c.Name,
					c.AbsTol, c.RelTol)
			}
			var want []output
			counts := []int{1, 3}
			if os.Getenv("HEADROOM_LONG") != "" {
				counts = []int{1, 2, 3, 5}
			}
			if !RaceDetector {
				reference := kernels.NewReference()
				defer reference.Close()
				want = outputs(reference, c)
			}
			for _, isa := range cpu.Available() {
				var one []output
				for _, threads := range counts {
					d := kernels.NewCPU(cpu.Options{ISA: isa, Threads: threads})
					got := outputs(d, c)
					if one == nil {
						one = got
						compare(t, fmt.Sprint(isa), c, got, want)
					} else if !slices.EqualFunc(one, got, equal) {
						t.Errorf("%s: %d threads give other bits than one thread", isa, threads)
					}
					d.Close()
				}
			}
		})
	}
}

// output is an output tensor of a case.
type output struct {
	dtype    kernels.DType
	cols     int
	name     string // for messages
	elements []byte // without the gaps between rows
}

func equal(a, b output) bool { return bytes.Equal(a.elements, b.elements) }

func outputs(d kernels.Device, c kernels.Case) []output {
	op, outs := c.New(d, c.Rand())
	all, err := run(d, op, outs)
	if err != nil {
		panic(err)
	}
	return all
}

func run(d kernels.Device, op kernels.Op, outs []kernels.Tensor) (all []output, err error) {
	d.Run(op)
	if err := d.Sync(); err != nil {
		return nil, err
	}
	for _, o := range outs {
		all = append(all, output{o.DType, o.Cols, o.String(), Elements(o)})
	}
	return all, nil
}

// Elements returns a copy of a tensor's elements without the gaps between its rows.
func Elements(t kernels.Tensor) []byte { return t.Elements() }

func compare(t *testing.T, device string, c kernels.Case, got, want []output) {
	t.Helper()
	for i, w := range want {
		g := got[i]
		if w.dtype != kernels.F32 {
			if !equal(g, w) {
				t.Errorf("%s: output %d (%s) differs from the reference", device, i, w.name)
			}
			continue
		}
		if at, g, x := Differ(g.elements, w.elements, c.AbsTol, c.RelTol); at >= 0 {
			t.Errorf(
				"%s: output %d (%s) element [%d, %d]: got %g, expected %g within %g + %g*|x| (%s)",
				device, i, w.name, at/w.cols, at%w.cols, g, x, c.AbsTol, c.RelTol, c.Why)
		}
	}
}

// Differ returns the index of the first float32 element of got outside absTol + relTol*|want|, and
// both elements. If there is none, the index is -1.
func Differ(got, want []byte, absTol, relTol float64) (at int, g, w float64) {
	for i := 0; i+4 <= len(want); i += 4 {
		g, w := f32(got[i:]), f32(want[i:])
		if !(math.Abs(g-w) <= absTol+relTol*math.Abs(w)) && !(g == w) {
			return i / 4, g, w
		}
	}
	return -1, 0, 0
}

func f32(b []byte) float64 {
	return float64(math.Float32frombits(uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 |
		uint32(b[3])<<24))
}

// Bench times every case that has Bytes or Flops, with the best instruction set on all cores.
func Bench(b *testing.B, cases []kernels.Case) {
	for _, c := range cases {
		if c.Bytes == 0 && c.Flops == 0 {
			continue
		}
		b.Run(c.Name, func(b *testing.B) {
			d := kernels.NewCPU(cpu.Options{})
			defer d.Close()
			op, _ := c.New(d, c.Rand())
			d.Run(op)
			b.SetBytes(c.Bytes)
			b.ReportAllocs()
			b.ResetTimer()
			for b.Loop() {
				d.Run(op)
			}
			if c.Flops > 0 {
				b.ReportMetric(float64(c.Flops)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
			}
		})
	}
}
