package attention

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"headroom/kernels"
)

func selectCases() (cases []kernels.Case) {
	for _, s := range selectShapes() {
		cases = append(cases, kernels.Case{
			Name: fmt.Sprintf("select_%s_h%d_kvh%d_d%d_p%d_prompt%d", formatNames(s.k, s.v),
				s.heads, s.kvHeads, s.d, s.page, s.prompt),
			New: func(d kernels.Device, r *rand.Rand) (kernels.Op, []kernels.Tensor) {
				o := s.build(d, r, s.observe)
				return o, o.Cache.tensors()
			},
		})
	}
	return cases
}

func selectShapes() (all []selecting) {
	f16 := FloatFormat(kernels.F16)
	for _, f := range [][2]Format{{f16, f16}, {FloatFormat(kernels.F32), FloatFormat(kernels.BF16)},
		{affine(8, 64), affine(4, 32)}, {affine(5, 32), affine(6, 32)},
		{affine(3, 32), affine(2, 32)}, {{Kind: Q8_0}, {Kind: Q4_0}}} {
		all = append(all, selecting{heads: 6, kvHeads: 2, d: 64, page: 32, k: f[0], v: f[1],
			prompt: 1333, observe: 32, first: 32, from: 1216, tokens: 96})
	}
	return append(all,
		selecting{heads: 4, kvHeads: 1, d: 32, page: 16, k: f16, v: f16, cap: 5, prompt: 300,
			observe: 7, first: 0, from: 288, tokens: 64},
		selecting{heads: 2, kvHeads: 2, d: 128, page: 32, k: affine(4, 64), v: affine(4, 32),
			start: 512, prompt: 1100, observe: 16, first: 512, from: 1056, tokens: 128})
}

// selecting is a prompt of random keys and values from which a Select selects.
type selecting struct {
	heads, kvHeads, d, page int
	k, v                    Format
	start                   int // tokens of the cache's Start
	prompt, observe         int
	first, from, tokens     int
	cap                     float32
}

// build returns the operator. rows is the number of rows in the batch, of which the last are
// observed.
func (s selecting) build(d kernels.Device, r *rand.Rand, rows int) *Select {
	pages := (s.prompt+s.page-1)/s.page + s.tokens/s.page + 8
	start, total := startFor(s.start, pages)
	c := NewCache(d, s.k, s.v, s.kvHeads, s.d, s.page, total, start)
	table := randomPages(r, pages)
	selected := slices.Clone(table[pages-s.tokens/s.page:])
	own := start.place(table[:pages-s.tokens/s.page], s.page)
	for i := range selected {
		selected[i] += int32(start.Pages)
	}
	k := kernels.RandomTensor(d, r, s.prompt, s.kvHeads*s.d, 1)
	v := kernels.RandomTensor(d, r, s.prompt, s.kvHeads*s.d, 1)
	d.Run(&Append{K: k, V: v, Cache: c, Spans: []kernels.Span{{Rows: s.prompt, Pages: own}}})
	q := kernels.RandomTensor(d, r, s.observe, s.heads*s.d, 6)
	all := kernels.NewTensor(d, kernels.F32, rows+3, s.heads*s.d)
	for i := range s.observe {
		copy(all.Row(3+rows-s.observe+i), q.Row(i))
	}
	compact := &kernels.Compact{Prompt: s.prompt, Observe: s.observe, First: s.first, From: s.from,
		Tokens: s.tokens, Pages: selected}
	compact.Table = slices.Concat(own[:s.first/s.page], selected, own[s.from/s.page:])
	return &Select{Q: all, Cache: c, Scale: 0.25, Cap: s.cap, Span: kernels.Span{Row: 3, Rows: rows,
		Pos: s.prompt - rows, Pages: own, Compact: compact}}
}
