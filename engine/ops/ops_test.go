package ops

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"headroom/kernels"
	"headroom/kernels/cpu"
)

func newContext(t *testing.T, arenaBytes int) *Context {
	t.Helper()
	d := kernels.NewCPU(cpu.Options{Threads: 2, Float32Activations: true})
	t.Cleanup(d.Close)
	return NewContext(d, arenaBytes, 0)
}

// TestArena checks that tensors start at multiples of 128 bytes, do not overlap, and are freed by
// Release.
func TestArena(t *testing.T) {
	c := newContext(t, 1024)
	a := c.Temp(kernels.F32, 3, 7) // 84 bytes, rounded up to 128
	mark := c.Mark()
	b := c.Temp(kernels.I32, 1, 33) // 132 bytes, rounded up to 256
	inner := c.Temp(kernels.F32, 1, 1)
	if a.Offset != 0 || b.Offset != 128 || inner.Offset != 384 || c.PeakBytes() != 512 {
		t.Errorf("tensors at %d, %d, %d, peak %d, expected 0, 128, 384, 512", a.Offset, b.Offset,
			inner.Offset, c.PeakBytes())
	}
	c.Release(mark)
	if again := c.Temp(kernels.F32, 1, 2); again.Offset != 128 || c.PeakBytes() != 512 {
		t.Errorf("after release: tensor at %d, peak %d, expected 128, 512", again.Offset,
			c.PeakBytes())
	}
	c.Release(0)
	if whole := c.Temp(kernels.F32, 1, 256); len(whole.Float32s()) != 256 {
		t.Error("a tensor as large as the arena has the wrong size")
	}
}

// TestShortBuffers checks that a tensor lies in one buffer of the arena, that no two overlap, and
// that smaller tensors need no larger arena.
func TestShortBuffers(t *testing.T) {
	const longest = 1000 // rounded down to 896
	sizes := []int{300, 896, 128, 500, 300, 1}
	pass := func(c *Context, smaller int) {
		type piece struct {
			b    *kernels.Buffer
			from int
		}
		var all []piece
		for _, bytes := range sizes {
			x := c.Temp(kernels.U8, 1, max(1, bytes-smaller))
			if x.Buffer.Bytes == nil {
				continue
			}
			if end := x.Offset + x.Cols; end > x.Buffer.Size || x.Buffer.Size > longest {
				t.Errorf("%d bytes end at %d in a buffer of %d", x.Cols, end, x.Buffer.Size)
			}
			for _, other := range all {
				if other.b == x.Buffer && x.Offset < other.from {
					t.Errorf("%d bytes begin at %d, before %d", x.Cols, x.Offset, other.from)
				}
			}
			all = append(all, piece{x.Buffer, x.Offset + x.Cols})
		}
		c.Release(0)
	}
	dry := NewContext(kernels.NewDryRun(), 0, longest)
	pass(dry, 0)
	// 384, gap, 896, 128 + 512, gap, 384 + 128
	if want := 3*896 + 512; dry.PeakBytes() != want || dry.LargestBytes() != 896 {
		t.Errorf("peak %d, largest %d, expected %d and 896", dry.PeakBytes(), dry.LargestBytes(),
			want)
	}
	d := kernels.NewCPU(cpu.Options{Threads: 1})
	t.Cleanup(d.Close)
	c := NewContext(d, dry.PeakBytes(), longest)
	if len(c.arena) != 4 {
		t.Errorf("%d buffers, expected 4", len(c.arena))
	}
	for smaller := range 600 {
		pass(c, smaller)
	}
	c.Temp(kernels.U8, 1, 384)
	if free := c.FreeBytes(); free > 512 {
		t.Errorf("%d bytes are free after 384 in a buffer of 896", free)
	}
}

// TestFullArenaPanics checks the message of the panic when the arena is full.
func TestFullArenaPanics(t *testing.T) {
	c := newContext(t, 1024)
	defer func() {
		if r := fmt.Sprint(recover()); !strings.Contains(r, "arena of 1024 bytes is full") ||
			!strings.Contains(r, "largest batch") {
			t.Errorf("panic %q, expected the size of the arena and the cause", r)
		}
	}()
	c.Temp(kernels.F32, 257, 1)
}

// TestDryRunArenaGrows checks that on a device that allocates nothing, the arena grows, and that
// PeakBytes returns the size that an arena on a real device needs.
func TestDryRunArenaGrows(t *testing.T) {
	c := NewContext(kernels.NewDryRun(), 0, 0)
	x := c.Temp(kernels.F32, 1000, 1000)
	c.Linear(x, &kernels.Weight{Experts: 1, N: 10, K: 1000,
		Data: kernels.NewTensor(c.Device, kernels.F32, 10, 1000)})
	if want := 4_000_000 + 40_064; c.PeakBytes() != want {
		// The 40,000 bytes of the result are rounded up to a multiple of 128.
		t.Errorf("peak %d, expected %d", c.PeakBytes(), want)
	}
}

// random returns a plain (not packed) weight with values from r.
func random(c *Context, r *rand.Rand, experts, n, k int) *kernels.Weight {
	return &kernels.Weight{Experts: experts, N: n, K: k, Data: randomTensor(c, r, experts*n, k)}
}

func randomTensor(c *Context, r *rand.Rand, rows, cols int) kernels.Tensor {
	values := make([]float32, rows*cols)
	for i := range values {
		values[i] = float32(r.NormFloat64())
	}
	return kernels.FromFloat32s(c.Device, rows, cols, values)
}

// TestProductsTogether checks that the results of Linear2, Linear3 and Linear4 equal those of
// Linear, in the same order.
func TestProductsTogether(t *testing.T) {
	c, r := newContext(t, 1<<20), rand.New(rand.NewPCG(1, 2))
	x := randomTensor(c, r, 5, 48)
	var w [4]*kernels.Weight
	var want [4][]float32
	for i := range w {
		w[i] = random(c, r, 1, 16+8*i, 48)
		want[i] = slices.Clone(c.Linear(x, w[i]).Float32s())
	}
	check := func(what string, got ...kernels.Tensor) {
		for i, g := range got {
			if g.Rows != 5 || g.Cols != w[i].N || !slices.Equal(g.Float32s(), want[i]) {
				t.Errorf("%s: product %d (%s) differs from the result of Linear", what, i, g)
			}
		}
	}
	a, b := c.Linear2(x, w[0], w[1])
	check("Linear2", a, b)
	a, b, d := c.Linear3(x, w[0], w[1], w[2])
	check("Linear3", a, b, d)
	a, b, d, e := c.Linear4(x, w[0], w[1], w[2], w[3])
	check("Linear4", a, b, d, e)
}

// TestExperts checks that the result for a pair of a row and an expert is the product of that row
// with that expert's matrix. x has a row for each token, or a row for each pair.
func TestExperts(t *testing.T) {
	const rows, k, choices, n = 3, 32, 2, 16
	c, r := newContext(t, 1<<20), rand.New(rand.NewPCG(3, 4))
	w1, w2 := random(c, r, 4, n, k), random(c, r, 4, n, k)
	ids := kernels.NewTensor(c.Device, kernels.I32, rows, choices)
	copy(ids.Int32s(), []int32{2, 0, 3, 3, 1, 2})
	alone := func(x kernels.Tensor, w *kernels.Weight, expert int32) []float32 {
		one := &kernels.Weight{Experts: 1, N: n, K: k,
			Data: w.Data.RowRange(int(expert)*n, int(expert+1)*n)}
		return c.Linear(x, one).Float32s()
	}
	shared, own := randomTensor(c, r, rows, k), randomTensor(c, r, rows*choices, k)
	a, b := c.Experts(shared, ids, w1), c.Experts(shared, ids, w2)
	d := c.Experts(own, ids, w1)
	for pair, id := range ids.Int32s() {
		x := shared.RowRange(pair/choices, pair/choices+1)
		if !slices.Equal(a.Row(pair), alone(x, w1, id)) ||
			!slices.Equal(b.Row(pair), alone(x, w2, id)) {
			t.Errorf("pair %d is not the product of row %d and expert %d", pair, pair/choices, id)
		}
		if !slices.Equal(d.Row(pair), alone(own.RowRange(pair, pair+1), w1, id)) {
			t.Errorf("pair %d is not the product of row %d and expert %d", pair, pair, id)
		}
	}
}

// TestOperatorsKeepNothing checks that an operator does not use optional operands of an earlier run
// of the same operator.
func TestOperatorsKeepNothing(t *testing.T) {
	c, r := newContext(t, 1<<20), rand.New(rand.NewPCG(5, 6))
	x, residual, weight := randomTensor(c, r, 2, 32), randomTensor(c, r, 2, 32),
		randomTensor(c, r, 1, 32)
	before := slices.Clone(c.RMSNorm(x, weight, 1e-6).Float32s())
	sum := slices.Clone(residual.Float32s())
	for i, v := range x.Float32s() {
		sum[i] += v
	}
	c.AddRMSNorm(residual, x, weight, 1e-6)
	if !slices.Equal(residual.Float32s(), sum) {
		t.Error("AddRMSNorm did not add x to the residual")
	}
	if after := c.RMSNorm(x, weight, 1e-6).Float32s(); !slices.Equal(after, before) ||
		!slices.Equal(residual.Float32s(), sum) {
		t.Error("AddRMSNorm changes the result of a later RMSNorm")
	}
	experts, weights, shared, gate := randomTensor(c, r, 4, 32), randomTensor(c, r, 2, 2),
		randomTensor(c, r, 2, 32), randomTensor(c, r, 2, 1)
	var none kernels.Tensor
	plain := slices.Clone(c.Combine(experts, weights, none, none).Float32s())
	c.Combine(experts, weights, shared, gate)
	if !slices.Equal(c.Combine(experts, weights, none, none).Float32s(), plain) {
		t.Error("Combine with a shared expert changes the result of a later Combine without one")
	}
}
