package attention

import (
	"testing"

	"headroom/kernels"
	"headroom/kernels/kerneltest"
)

func TestCases(t *testing.T)      { kerneltest.Run(t, Cases()) }
func BenchmarkCases(b *testing.B) { kerneltest.Bench(b, Cases()) }

// BenchmarkLong times shapes that the scalar reference is too slow to check: whole prompts, and decoding from a cache larger
// than the processor's.
func BenchmarkLong(b *testing.B) {
	var cases []kernels.Case
	for _, s := range []shape{
		{heads: 32, kvHeads: 8, d: 128, spans: [][2]int{{0, 2048}}},
		{heads: 16, kvHeads: 2, d: 256, spans: [][2]int{{1536, 512}}},
		{heads: 16, kvHeads: 16, d: 64, spans: [][2]int{{0, 2048}}},
		{heads: 32, kvHeads: 8, d: 128, spans: [][2]int{{32767, 1}}},
		{heads: 16, kvHeads: 2, d: 256, spans: [][2]int{{65535, 1}}},
	} {
		s.dtype, s.p, s.timed = kernels.F16, 32, true
		cases = append(cases, s.toCase())
	}
	kerneltest.Bench(b, cases)
}
