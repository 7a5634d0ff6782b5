package attention

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"headroom/kernels"
	"headroom/kernels/kerneltest"
)

// BenchmarkNV times decoding of one token and prefill of a chunk, up to the longest contexts.
func BenchmarkNV(b *testing.B) {
	f16, k8, v4 := FloatFormat(kernels.F16), affine(8, 64), affine(4, 32)
	formats := [][2]Format{{f16, f16}, {k8, v4}, {k8, affine(8, 32)}, {{Kind: Q8_0}, {Kind: Q8_0}},
		{{Kind: Q4_0}, {Kind: Q4_0}}}
	var all []kerneltest.Timing
	for _, model := range []shape{{heads: 16, kvHeads: 2, d: 256},
		{heads: 32, kvHeads: 8, d: 128}} {
		for _, span := range [][3]int{{4095, 1, 0}, {32767, 1, 0}, {131071, 1, 0},
			{3584, 512, 512}} {
			for i, f := range formats {
				if span[0] == 131071 && i > 1 {
					continue
				}
				s := model
				s.p, s.k, s.v, s.spans = 32, f[0], f[1], [][3]int{span}
				t := kerneltest.Timing{Name: s.name()}
				t.Bytes, t.Flops = s.work()
				t.New = func(d kernels.Device, r *rand.Rand, copies int) []kernels.Op {
					var ops []kernels.Op
					for range copies {
						ops = append(ops, s.long(d, r))
					}
					return ops
				}
				all = append(all, t)
			}
		}
	}
	kerneltest.BenchNV(b, append(all, kerneltest.Timings(kvAppendCases())...))
}

// long is like build for one span, but repeats the same few pages to fill a long context quickly.
func (s shape) long(d kernels.Device, r *rand.Rand) *Attention {
	span := s.spans[0]
	few := s
	few.spans = [][3]int{{64 - min(span[1], 64), min(span[1], 64), 0}}
	o := few.build(d, r)
	if err := d.Sync(); err != nil {
		panic(fmt.Sprint("attention: shape.long: ", err))
	}
	pages := (span[0] + span[1] + s.p - 1) / s.p
	c := NewCache(d, s.k, s.v, s.kvHeads, s.d, s.p, pages, Start{})
	for i := range pages {
		from := int(o.Spans[0].Pages[i%2])
		copy(c.K.Bytes[i*c.KPageBytes():], o.Cache.K.Bytes[from*c.KPageBytes():][:c.KPageBytes()])
		copy(c.V.Bytes[i*c.VPageBytes():], o.Cache.V.Bytes[from*c.VPageBytes():][:c.VPageBytes()])
	}
	rows := span[1]
	o.Q, o.Out = kernels.RandomTensor(d, r, rows, s.heads*s.d, 2),
		kernels.NewTensor(d, kernels.F32, rows, s.heads*s.d)
	o.Cache, o.Spans = c, []kernels.Span{{Rows: rows, Pos: span[0], Pages: randomPages(r, pages),
		Prefill: span[2]}}
	return o
}
