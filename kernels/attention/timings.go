package attention

// The attention that is timed on GPUs: the heads of Qwen3.5-35B-A3B, of Qwen3-8B and of
// Qwen3.5-27B, up to the longest contexts.

import (
	"fmt"
	"math/rand/v2"

	"headroom/kernels"
)

// LargeTimings returns the attention of the tables in metal/PEERS.md and kernels/gpu/PERF.md.
func LargeTimings() []kernels.Timing {
	f16, k8, v4 := FloatFormat(kernels.F16), affine(8, 64), affine(4, 32)
	formats := []struct {
		name string
		k, v Format
	}{{"float16", f16, f16}, {"K8V4", k8, v4}, {"K8V8", k8, affine(8, 32)},
		{"q8_0", Format{Kind: Q8_0}, Format{Kind: Q8_0}},
		{"q4_0", Format{Kind: Q4_0}, Format{Kind: Q4_0}}}
	var all []kernels.Timing
	for _, model := range []shape{{heads: 16, kvHeads: 2, d: 256}, {heads: 32, kvHeads: 8, d: 128},
		{heads: 24, kvHeads: 4, d: 256}} {
		for _, span := range [][3]int{{255, 1, 0}, {4095, 1, 0}, {32767, 1, 0}, {32764, 4, 0},
			{131071, 1, 0}, {3584, 512, 512}} {
			for i, f := range formats {
				if i > 1 && span[0] != 4095 {
					continue // other formats only at one length
				}
				s := model
				s.p, s.k, s.v, s.spans = 32, f.k, f.v, [][3]int{span}
				t := kernels.Timing{Name: s.title(f.name)}
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
	return all
}

// title is the name of a shape with one span in the tables: "16, 2, 256 at 4096, 1 row, K8V4".
func (s shape) title(format string) string {
	span := s.spans[0]
	rows := "1 row"
	if span[1] > 1 {
		rows = fmt.Sprintf("%d rows", span[1])
	}
	return fmt.Sprintf("%d, %d, %d at %d, %s, %s", s.heads, s.kvHeads, s.d, span[0]+span[1], rows,
		format)
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
