//go:build nv && linux

package peer

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"testing"

	"headroom/kernels"
	"headroom/kernels/gpu"
	"headroom/kernels/kerneltest"
	"headroom/metal"
	"headroom/metal/nv"
)

var mlxFolder = flag.String("mlx", "", "the folder of MLX's repository")

// comparison is an operator of ours and what computes the same in MLX.
type comparison interface {
	name() string
	bytes() int // that one run reads
	// tolerance is the most by which MLX's outputs may differ, by their size: bfloat16 has eight
	// bits, and MLX rounds its sums to it.
	tolerance() float64
	build(d kernels.Device, m *mlxSide, r *rand.Rand) pair
}

// pair is one set of operands.
type pair struct {
	ours    kernels.Op
	theirs  map[string][]call // by the kernel's name
	results []result
}

// result is an output of both sides: float32 [rows, N], and bfloat16 without gaps, which is [heads,
// rows, N/heads] if there are heads.
type result struct {
	ours   kernels.Tensor
	theirs metal.Binding
	heads  int
}

// rows returns MLX's output in the order of ours.
func (r result) rows() []float32 {
	all := floats(r.theirs.Buffer.Bytes())
	if r.heads == 0 {
		return all
	}
	n, d := r.ours.Rows, r.ours.Cols/r.heads
	var out []float32
	for row := range n {
		for h := range r.heads {
			out = append(out, all[(h*n+row)*d:][:d]...)
		}
	}
	return out
}

func comparisons() []comparison {
	var all []comparison
	for _, s := range [][2]int{{248320, 2048}, {12288, 2048}, {2048, 4096}, {17408, 5120},
		{5120, 17408}} {
		for _, m := range []int{1, 2, 4, 8} {
			all = append(all, product{m: m, n: s[0], k: s[1], bits: 4})
		}
	}
	for _, bits := range []int{3, 5, 6, 8} {
		all = append(all, product{m: 1, n: 248320, k: 2048, bits: bits})
	}
	all = append(all, product{m: 1, n: 65536, k: 2048},
		product{m: 1, n: 512, k: 2048, bits: 4, experts: 256, choices: 8, pair: true},
		product{m: 1, n: 2048, k: 512, bits: 4, experts: 256, choices: 8},
		product{m: 4, n: 512, k: 2048, bits: 4, experts: 256, choices: 8, pair: true},
		product{m: 512, n: 12288, k: 2048, bits: 4, prefill: true})
	all = append(all, rmsNorm{1, 2048}, rmsNorm{128, 2048})
	return append(all, decodes()...)
}

// BenchmarkPeers runs both sides in turn and reports the best batch of each by the GPU's clock.
// Run it with -benchtime 1x.
func BenchmarkPeers(b *testing.B) {
	if *mlxFolder == "" {
		b.Skip("no -mlx FOLDER")
	}
	m, compileOnly := kerneltest.NV(b, nv.Options{Streams: 1})
	rate := 0.0
	if !compileOnly {
		var err error
		if rate, err = m.CopyBytesPerSecond(); err != nil {
			b.Fatal(err)
		}
		fmt.Printf("%s; a copy moves %.2f TB/s\n", m.Facts().Name, rate/1e12)
	}
	for _, c := range comparisons() {
		b.Run(strings.ReplaceAll(c.name(), " ", "_"), func(b *testing.B) {
			x := newRace(b, m, c, compileOnly)
			defer x.close()
			if compileOnly {
				x.compile()
				return
			}
			x.check(b)
			x.report(b, rate)
		})
	}
}

// race is one comparison with its operands.
type race struct {
	c     comparison
	d     *gpu.Device
	m     *nv.Device
	mlx   *mlxSide
	pairs []pair
	names []string // MLX's kernels
}

const (
	coldBytes = 256 << 20 // total of the operands, more than the GPU's cache holds
	maxCopies = 48
	batches   = 6
	maxRuns   = 200
	minRuns   = 20
	seconds   = 0.03 // of a batch
)

func newRace(b *testing.B, m *nv.Device, c comparison, compileOnly bool) *race {
	d, err := gpu.New(m)
	if err != nil {
		b.Fatal(err)
	}
	x := &race{c: c, d: d, m: m, mlx: newMLXSide(b, m)}
	n := max(1, min(maxCopies, coldBytes/max(1, c.bytes())))
	if compileOnly {
		n = 1
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range n {
		x.pairs = append(x.pairs, c.build(d, x.mlx, r))
	}
	for name := range x.pairs[0].theirs {
		x.names = append(x.names, name)
	}
	sort.Strings(x.names)
	return x
}

func (x *race) close() {
	x.mlx.free()
	x.d.Close()
}

func (x *race) compile() {
	x.d.Run(x.pairs[0].ours)
	_ = x.d.Sync()
}

// check compares the outputs of one run.
func (x *race) check(b *testing.B) {
	p := x.pairs[0]
	x.d.Run(p.ours)
	if err := x.d.Sync(); err != nil {
		b.Fatal(err)
	}
	for _, name := range x.names {
		x.mlx.run(p.theirs[name])
		if err := x.mlx.sync(); err != nil {
			b.Fatal(name, ": ", err)
		}
		for _, r := range p.results {
			got := r.rows()
			var want []float32
			for row := range r.ours.Rows {
				want = append(want, r.ours.Row(row)...)
			}
			var square, wrong float64
			for i, v := range want {
				square += float64(v) * float64(v)
				wrong += math.Pow(float64(v)-float64(got[i]), 2)
			}
			if e := math.Sqrt(wrong / square); !(e < x.c.tolerance()) {
				b.Errorf("%s differs from ours by %.3g of the outputs' size", name, e)
			}
		}
	}
}

// report times both sides and prints a row of the table.
func (x *race) report(b *testing.B, rate float64) {
	run := map[string]func(i int){"ours": func(i int) { x.d.Run(x.pairs[i%len(x.pairs)].ours) }}
	for _, name := range x.names {
		run[name] = func(i int) { x.mlx.run(x.pairs[i%len(x.pairs)].theirs[name]) }
	}
	sides := append([]string{"ours"}, x.names...)
	batch := func(side string, runs int) float64 {
		before := x.m.Seconds()
		for i := range runs {
			run[side](i)
		}
		err := x.d.Sync()
		if side != "ours" {
			err = x.mlx.sync()
		}
		if err != nil {
			b.Fatal(side, ": ", err)
		}
		return (x.m.Seconds() - before) / float64(runs)
	}
	best, runs := map[string]float64{}, map[string]int{}
	for _, side := range sides {
		batch(side, len(x.pairs))
		runs[side] = max(minRuns, min(maxRuns, int(seconds/batch(side, len(x.pairs)))))
		best[side] = math.Inf(1)
	}
	for range batches {
		for _, side := range sides {
			best[side] = min(best[side], batch(side, runs[side]))
		}
	}
	theirs := slices.MinFunc(x.names, func(a, b string) int {
		if best[a] < best[b] {
			return -1
		}
		return 1
	})
	share := func(s float64) float64 { return 100 * float64(x.c.bytes()) / s / rate }
	others := ""
	for _, name := range x.names {
		if name != theirs {
			others += fmt.Sprintf(", %s %.1f", name, 1e6*best[name])
		}
	}
	fmt.Printf("| %s | %.1f, %.0f %% | %.1f, %.0f %% (%s%s) | %.2f |\n", x.c.name(),
		1e6*best["ours"], share(best["ours"]), 1e6*best[theirs], share(best[theirs]), theirs,
		others, best[theirs]/best["ours"])
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(best[theirs]/best["ours"], "times")
}
