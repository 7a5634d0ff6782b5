package ops

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"headroom/kernels"
	"headroom/kernels/cpu"
)

// TestShortLogits: logits of a shortlist have the bits of those of all rows, in every packing, with
// few and with many rows of x. Lists follow each other, so that parts are kept and replaced.
func TestShortLogits(t *testing.T) {
	const vocab, k = 300, 128
	for _, float32s := range []bool{false, true} {
		d := kernels.NewCPU(cpu.Options{Threads: 2, Float32Activations: float32s})
		t.Cleanup(d.Close)
		c := NewContext(d, 1<<20, 0)
		r := rand.New(rand.NewPCG(1, 2))
		for _, f := range []struct {
			bits, group int
			dtype       kernels.DType
		}{{0, 0, kernels.F32}, {0, 0, kernels.BF16}, {2, 64, kernels.BF16}, {3, 32, kernels.F16},
			{4, 64, kernels.BF16}, {4, 128, kernels.F32}, {5, 64, kernels.BF16},
			{6, 64, kernels.F16}, {8, 32, kernels.F32}, {4, 32, kernels.U8}, {8, 32, kernels.U8},
			{4, 16, kernels.E4M3}, {8, 128, kernels.E4M3}} {
			w := kernels.RandomWeight(d, r, 1, vocab, k, f.bits, f.group, f.dtype, 1)
			if f.bits == 4 && f.group == 64 { // columns in another order
				w.Order = kernels.NewTensor(d, kernels.I32, 1, k)
				for i := range w.Order.Int32s() {
					w.Order.Int32s()[i] = int32(k - 1 - i)
				}
			}
			for _, rows := range []int{1, 3, 20} {
				name := fmt.Sprintf("%s, %d rows, float32 %t", w.Format(), rows, float32s)
				testShortLogits(t, c, name, randomRows(c, r, rows, k), w)
				c.Release(0)
			}
		}
	}
}

func randomRows(c *Context, r *rand.Rand, rows, cols int) kernels.Tensor {
	x := c.Temp(kernels.F32, rows, cols)
	for i := range x.Float32s() {
		x.Float32s()[i] = float32(r.NormFloat64())
	}
	return x
}

func testShortLogits(t *testing.T, c *Context, name string, x kernels.Tensor, w *kernels.Weight) {
	t.Helper()
	indices := make([]int32, x.Rows)
	for i := range indices {
		indices[i] = int32(x.Rows - 1 - i)
	}
	all := c.Logits(x, indices, w)
	for _, list := range []struct {
		first, last int
		between     []int32
	}{{40, 7, []int32{100, 41, 292}}, {40, 7, []int32{100, 55, 292, 99}}, {33, 0, nil},
		{0, 5, []int32{1}}, {40, 7, []int32{200}}} {
		var tokens []int
		for i := range list.first {
			tokens = append(tokens, i)
		}
		for i := range list.last {
			tokens = append(tokens, w.N-list.last+i)
		}
		for _, token := range list.between {
			tokens = append(tokens, int(token))
		}
		got := c.ShortLogits(x, indices, w, list.first, list.last, list.between)
		if got.Rows != x.Rows || got.Cols != len(tokens) {
			t.Fatalf("%s: got %s, expected [%d, %d]", name, got, x.Rows, len(tokens))
		}
		for i := range x.Rows {
			for j, token := range tokens {
				g, a := got.Row(i)[j], all.Row(i)[token]
				if math.Float32bits(g) != math.Float32bits(a) {
					t.Fatalf("%s: row %d, token %d: got %g, expected %g", name, i, token, g, a)
				}
			}
		}
	}
}
