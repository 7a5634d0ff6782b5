package attention

import (
	"testing"

	"headroom/kernels"
	"headroom/kernels/kerneltest"
)

func TestCases(t *testing.T)      { kerneltest.Run(t, Cases()) }
func TestHostCases(t *testing.T)  { kerneltest.Run(t, HostCases()) }
func BenchmarkCases(b *testing.B) { kerneltest.Bench(b, Cases()) }

// BenchmarkLong times shapes that the scalar reference is too slow to check: whole prompts, and
// decoding from a cache larger than the processor's.
func BenchmarkLong(b *testing.B) {
	var cases []kernels.Case
	for _, s := range []shape{
		{heads: 32, kvHeads: 8, d: 128, spans: [][3]int{{0, 2048}}},
		{heads: 16, kvHeads: 2, d: 256, spans: [][3]int{{1536, 512}}},
		{heads: 16, kvHeads: 16, d: 64, spans: [][3]int{{0, 2048}}},
		{heads: 32, kvHeads: 8, d: 128, spans: [][3]int{{32767, 1}}},
		{heads: 16, kvHeads: 2, d: 256, spans: [][3]int{{65535, 1}}},
		{heads: 8, kvHeads: 4, d: 256, spans: [][3]int{{32767, 1}}},
		{heads: 8, kvHeads: 4, d: 256, window: 1024, spans: [][3]int{{32767, 1}}},
		{heads: 8, kvHeads: 4, d: 256, window: 1020, sinkTokens: 4, spans: [][3]int{{32767, 1}}},
		{heads: 8, kvHeads: 4, d: 256, window: 1024, spans: [][3]int{{32256, 512}}},
	} {
		s.p, s.timed = 32, true
		for _, f := range [][2]Format{
			{FloatFormat(kernels.F16), FloatFormat(kernels.F16)}, {affine(8, 64), affine(4, 32)},
			{affine(8, 64), affine(8, 32)}, {{Kind: Q8_0}, {Kind: Q8_0}},
			{{Kind: Q4_0}, {Kind: Q4_0}},
		} {
			s.k, s.v = f[0], f[1]
			cases = append(cases, s.toCase())
		}
	}
	kerneltest.Bench(b, cases)
}
