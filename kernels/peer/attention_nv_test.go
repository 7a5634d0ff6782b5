//go:build nv && linux

package peer

import (
	"fmt"
	"math"
	"math/rand/v2"

	"headroom/kernels"
	"headroom/kernels/attention"
	"headroom/metal"
)

// decode is the attention of the last rows of one sequence over a cache. MLX has the cache in 16
// bits as one array per head; ours is in pages of 32 positions.
type decode struct {
	heads, kvHeads, d int
	positions         int // in the cache, with those of the rows
	rows              int
	k, v              attention.Format
	format            string
}

func (a decode) name() string {
	return fmt.Sprintf("%d, %d, %d, %s at %d, %d rows", a.heads, a.kvHeads, a.d, a.format,
		a.positions, a.rows)
}

func (a decode) bytes() int {
	return a.positions * a.kvHeads * (a.k.RowBytes(a.d) + a.v.RowBytes(a.d))
}

// tolerance has the error of 4-bit values, of which a random softmax averages few.
func (a decode) tolerance() float64 {
	if a.format == "K8V4" {
		return 0.15
	}
	return 0.02
}

const pageTokens = 32

// build makes two random pages and repeats them.
func (a decode) build(d kernels.Device, m *mlxSide, r *rand.Rand) pair {
	const random = 2 * pageTokens
	k := kernels.RandomTensor(d, r, random, a.kvHeads*a.d, 1)
	v := kernels.RandomTensor(d, r, random, a.kvHeads*a.d, 1)
	kBytes, vBytes := roundedToBF16(k), roundedToBF16(v)
	few := attention.NewCache(d, a.k, a.v, a.kvHeads, a.d, pageTokens, 2, attention.Start{})
	d.Run(&attention.Append{K: k, V: v, Cache: few,
		Spans: []kernels.Span{{Rows: random, Pages: []int32{0, 1}}}})
	if err := d.Sync(); err != nil {
		m.t.Fatal(err)
	}
	pages := (a.positions + pageTokens - 1) / pageTokens
	c := attention.NewCache(d, a.k, a.v, a.kvHeads, a.d, pageTokens, pages, attention.Start{})
	table := make([]int32, pages)
	for i, page := range r.Perm(pages) {
		table[i] = int32(page)
		copy(c.K.Bytes[page*c.KPageBytes():], few.K.Bytes[i%2*c.KPageBytes():][:c.KPageBytes()])
		copy(c.V.Bytes[page*c.VPageBytes():], few.V.Bytes[i%2*c.VPageBytes():][:c.VPageBytes()])
	}
	q := kernels.RandomTensor(d, r, a.rows, a.heads*a.d, 1)
	out := kernels.NewTensor(d, kernels.F32, a.rows, a.heads*a.d)
	scale := float32(1 / math.Sqrt(float64(a.d)))
	qBytes := roundedToBF16(q)
	y := m.empty(2 * a.rows * a.heads * a.d)
	ours := &attention.Attention{Q: q, Out: out, Cache: c, Scale: scale, Spans: []kernels.Span{
		{Rows: a.rows, Pos: a.positions - a.rows, Pages: table}}}
	return pair{ours: ours, results: []result{{ours: out, theirs: y, heads: a.heads}},
		theirs: a.calls(m, qBytes, kBytes, vBytes, y, scale)}
}

// byHeads returns rows [n, heads, d] of 16 bits as [heads, positions, d], repeated.
func byHeads(rows []byte, heads, d, positions int) []byte {
	out := make([]byte, 0, 2*heads*positions*d)
	n := len(rows) / (2 * heads * d)
	for h := range heads {
		for p := range positions {
			out = append(out, rows[2*(p%n*heads+h)*d:][:2*d]...)
		}
	}
	return out
}

// calls returns MLX's ways: one pass, and two with each number of blocks that it uses on some Mac.
func (a decode) calls(m *mlxSide, q, k, v []byte, y metal.Binding, scale float32,
) map[string][]call {
	operands := []metal.Binding{m.memory(byHeads(q, a.heads, a.d, a.rows)),
		m.memory(byHeads(k, a.kvHeads, a.d, a.positions)),
		m.memory(byHeads(v, a.kvHeads, a.d, a.positions))}
	headStride, seqStride := int64(a.positions*a.d), int64(a.d)
	group := a.heads / a.kvHeads
	files := []string{"sdpa_vector.h"}
	causal := map[string]any{"do_causal": a.rows > 1}
	one := m.pipeline(mlxKernel{files: files, constants: causal,
		instance: fmt.Sprintf("sdpa_vector<bfloat16_t, %d, %d>", a.d, a.d)})
	thousand := metal.Size{X: 1024, Y: 1, Z: 1}
	rows := metal.Size{X: a.heads, Y: a.rows, Z: 1}
	all := map[string][]call{"sdpa_vector": {{label: "sdpa_vector", pipeline: one, groups: rows,
		threads: thousand, bindings: append(append(operands[:3:3], y), m.scalars(group, a.positions,
			headStride, seqStride, headStride, seqStride, scale)...)}}}
	for _, blocks := range []int{128, 256, 512, 1024} {
		// the second pass takes blocks from its argument, which has the name of a constant
		constants := map[string]any{"do_causal": a.rows > 1, "blocks": int32(blocks)}
		first := m.pipeline(mlxKernel{files: files, constants: constants,
			instance: fmt.Sprintf("sdpa_vector_2pass_1<bfloat16_t, %d, %d>", a.d, a.d)})
		second := m.pipeline(mlxKernel{files: files, constants: constants,
			instance: fmt.Sprintf("sdpa_vector_2pass_2<bfloat16_t, %d>", a.d)})
		n := a.heads * a.rows * blocks
		partial, sums, maxima := m.empty(2*n*a.d), m.empty(4*n), m.empty(4*n)
		name := fmt.Sprintf("2pass, %d blocks", blocks)
		all[name] = []call{
			{label: "2pass_1", pipeline: first,
				groups:  metal.Size{X: a.kvHeads, Y: 1, Z: blocks},
				threads: metal.Size{X: 32, Y: group, Z: a.rows},
				bindings: append(append(operands[:3:3], partial, sums, maxima, metal.Binding{}),
					m.scalars(a.positions, headStride, seqStride, headStride, seqStride,
						scale)...)},
			{label: "2pass_2", pipeline: second, groups: rows, threads: thousand,
				bindings: append([]metal.Binding{partial, sums, maxima, y}, m.scalars(blocks)...)}}
	}
	return all
}

// formats of ours beside MLX's bfloat16.
func decodes() []comparison {
	f16 := attention.FloatFormat(kernels.F16)
	k8 := attention.Format{Kind: attention.Affine, Bits: 8, Group: 64}
	v4 := attention.Format{Kind: attention.Affine, Bits: 4, Group: 32}
	var all []comparison
	for _, s := range [][3]int{{16, 2, 256}, {32, 8, 128}, {24, 4, 256}} {
		for _, positions := range []int{256, 4096, 32768, 131072} {
			x := decode{heads: s[0], kvHeads: s[1], d: s[2], positions: positions, rows: 1, k: f16,
				v: f16, format: "float16"}
			all = append(all, x)
			x.k, x.v, x.format = k8, v4, "K8V4"
			all = append(all, x)
			if positions == 32768 && s[0]/s[1] <= 8 {
				x.k, x.v, x.format, x.rows = f16, f16, "float16", 4
				all = append(all, x)
			}
		}
	}
	return all
}
