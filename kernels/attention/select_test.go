package attention

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"headroom/kernels"
	"headroom/kernels/cpu"
)

// pages returns the bits of the keys and values in these pages.
func (c *Cache) pages(pages []int32) []byte {
	var all []byte
	for _, page := range pages {
		k, kBytes := c.KPages(false)
		v, vBytes := c.VPages(false)
		all = append(all, c.K.Bytes[k+int(page)*kBytes:][:kBytes]...)
		all = append(all, c.V.Bytes[v+int(page)*vBytes:][:vBytes]...)
	}
	return all
}

// TestSelectRows checks that rows before the observed ones do not matter, and that the pages of the
// sequence stay as they are.
func TestSelectRows(t *testing.T) {
	for i, s := range selectShapes() {
		var want []byte
		for _, rows := range []int{s.observe, s.observe + 40} {
			d := kernels.NewCPU(cpu.Options{Threads: 2})
			o := s.build(d, rand.New(rand.NewPCG(1, 2)), rows)
			own := o.Span.Pages[s.start/s.page:]
			before := o.Cache.pages(own)
			d.Run(o)
			got := o.Cache.pages(o.Span.Compact.Pages)
			if want == nil {
				want = got
			}
			if !bytes.Equal(got, want) {
				t.Errorf("shape %d: the selection at the end of %d rows differs", i, rows)
			}
			if !bytes.Equal(o.Cache.pages(own), before) {
				t.Errorf("shape %d: the pages of the sequence have changed", i)
			}
			d.Close()
		}
	}
}

// TestCopyPositions copies single positions of every format to other places of a page. The copies
// have the original's elements, and all others of the page stay as they are.
func TestCopyPositions(t *testing.T) {
	for _, s := range selectShapes() {
		d := kernels.NewCPU(cpu.Options{Threads: 1})
		o := s.build(d, rand.New(rand.NewPCG(1, 2)), s.observe)
		c, own, page := o.Cache, o.Span.Pages, o.Span.Compact.Pages[:1]
		read := func(of func(int) rows, pages []int32, pos, at int) []float32 {
			row := make([]float32, s.d)
			of(pos).read(row, pages, 0, at)
			return row
		}
		want := map[int]int{5: s.first + 2, 6: s.first + 13, 11: s.first + 5, 0: s.first + 16}
		for _, of := range []func(int) rows{c.keys, c.values} {
			before := map[int][]float32{}
			for to := range 16 {
				before[to] = read(of, page, s.first, to)
			}
			for to, pos := range want {
				of(pos).copy(page, to, own, pos, 0)
				before[to] = read(of, own, pos, pos)
			}
			for to := range 16 {
				if got := read(of, page, s.first, to); !slices.Equal(got, before[to]) {
					t.Errorf("%s: position %d of the page has %v, expected %v",
						formatNames(s.k, s.v), to, got[:4], before[to][:4])
				}
			}
		}
		d.Close()
	}
}

// TestSelectByHand has one key that matters, at position 50. It and its neighbours have the highest
// scores. All other positions have the same score, except those at the ends of the candidates,
// which have fewer neighbours. So the first of the others are selected.
func TestSelectByHand(t *testing.T) {
	const d, page, prompt = 16, 16, 128
	for _, isa := range cpu.Available() {
		device := kernels.NewCPU(cpu.Options{ISA: isa, Threads: 1})
		c := NewCache(device, FloatFormat(kernels.F16), FloatFormat(kernels.F16), 1, d, page, 9,
			Start{})
		k, v := kernels.NewTensor(device, kernels.F32, prompt, d),
			kernels.NewTensor(device, kernels.F32, prompt, d)
		for pos := range prompt {
			v.Row(pos)[3] = float32(pos)
		}
		k.Row(50)[0] = 5
		q := kernels.NewTensor(device, kernels.F32, 1, d)
		q.Row(0)[0] = 1
		table := []int32{7, 6, 5, 4, 3, 2, 1, 0}
		device.Run(&Append{K: k, V: v, Cache: c, Spans: []kernels.Span{{Rows: prompt,
			Pages: table}}})
		device.Run(&Select{Q: q, Cache: c, Scale: 1, Span: kernels.Span{Rows: 1, Pos: prompt - 1,
			Pages: table, Compact: &kernels.Compact{Prompt: prompt, Observe: 1, First: 16,
				From: 112, Tokens: 16, Pages: []int32{8}}}})
		var got []int
		row := make([]float32, d)
		for i := range page {
			c.values(i).read(row, []int32{8}, 0, i)
			got = append(got, int(row[3]))
		}
		want := []int{18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 48, 49, 50, 51, 52}
		if !slices.Equal(got, want) {
			t.Errorf("%s: selected %v, expected %v", isa, got, want)
		}
		device.Close()
	}
}

// TestSelectAll checks that attention to a selection of all positions has the bits of attention to
// the sequence.
func TestSelectAll(t *testing.T) {
	for i, s := range selectShapes() {
		s.tokens = s.from - s.first
		d := kernels.NewCPU(cpu.Options{Threads: 2})
		o := s.build(d, rand.New(rand.NewPCG(1, 2)), s.observe)
		d.Run(o)
		after := o.Span
		after.Row, after.Rows, after.Pos = 0, 2, s.prompt-2
		attend := func(span kernels.Span) []byte {
			out := kernels.NewTensor(d, kernels.F32, o.Q.Rows, o.Q.Cols)
			d.Run(&Attention{Q: o.Q, Out: out, Cache: o.Cache, Scale: o.Scale, Cap: o.Cap,
				Spans: []kernels.Span{span}})
			return out.RowRange(0, 2).Elements()
		}
		if !bytes.Equal(attend(after), attend(after.Compacted())) {
			t.Errorf("shape %d: attention to all positions, selected, differs from plain attention",
				i)
		}
		d.Close()
	}
}

// TestSelectCheck checks that a selection with wrong pages or positions is refused.
func TestSelectCheck(t *testing.T) {
	d := kernels.NewCPU(cpu.Options{Threads: 1})
	defer d.Close()
	for name, change := range map[string]func(c *kernels.Compact, s *kernels.Span){
		"unaligned":          func(c *kernels.Compact, _ *kernels.Span) { c.First = 8 },
		"too many":           func(c *kernels.Compact, _ *kernels.Span) { c.From = 96 },
		"page out of bounds": func(c *kernels.Compact, _ *kernels.Span) { c.Pages[1] = 1 << 20 },
		"a page is missing":  func(c *kernels.Compact, _ *kernels.Span) { c.Pages = c.Pages[:1] },
		"too few rows":       func(c *kernels.Compact, _ *kernels.Span) { c.Observe = 33 },
		"not at the end":     func(_ *kernels.Compact, s *kernels.Span) { s.Rows-- },
		"no selection":       func(_ *kernels.Compact, s *kernels.Span) { s.Compact = nil },
	} {
		o := selectShapes()[0].build(d, rand.New(rand.NewPCG(1, 2)), 32)
		if err := o.Check(); err != nil {
			t.Fatal(err)
		}
		if change(o.Span.Compact, &o.Span); o.Check() == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
