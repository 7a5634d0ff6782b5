package attention

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"headroom/kernels"
	"headroom/kernels/cpu"
	"headroom/kernels/kerneltest"
)

// conversation holds the queries, keys and values of one sequence. A setting is a way to run it.
// The output must have the same bits in every setting.
type conversation struct {
	tokens, heads, kvHeads, d int
	window, sinkTokens        int
	cap                       float32
	sinks                     bool
	start                     int // tokens of the cache's Start
	kf, vf                    Format
	exact                     bool // activations stay float32
	q, k, v, logits           []float32
}

type setting struct {
	isa        cpu.ISA
	threads    int
	pageTokens int
	cuts       []int  // token indices where a batch ends and the next begins
	pagesSeed  uint64 // chooses the pages of the sequence
	neighbours bool   // each batch has other sequences before and after this one
	ring       bool   // reuse as few pages as the window and the longest batch need

	// device replaces isa and threads. The caller closes it. All tokens are prefill.
	device kernels.Device
}

// table returns the page table of the sequence. With a ring, the pages after those of the sink
// tokens repeat.
func (c conversation) table(s setting, pages []int32) []int32 {
	if !s.ring {
		return pages
	}
	longest, before := 0, 0
	for _, cut := range append(slices.Clone(s.cuts), c.tokens) {
		longest, before = max(longest, cut-before), cut
	}
	sinks, turning := (c.sinkTokens+s.pageTokens-1)/s.pageTokens,
		(c.window+longest+s.pageTokens-1)/s.pageTokens
	out := slices.Clone(pages)
	for i := range out[sinks:] {
		out[sinks+i] = pages[sinks+i%turning]
	}
	return out
}

func newConversation(c conversation) conversation {
	r := rand.New(rand.NewPCG(uint64(c.tokens), uint64(c.d)))
	normal := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(r.NormFloat64())
		}
		return x
	}
	c.q, c.k, c.v = normal(c.tokens*c.heads*c.d), normal(c.tokens*c.kvHeads*c.d),
		normal(c.tokens*c.kvHeads*c.d)
	c.logits = normal(c.heads)
	return c
}

// run computes the whole conversation and returns its output. Every page is filled with NaN first,
// so that reading a position that the sequence has not written would change the output.
func (c conversation) run(s setting) []byte {
	d := s.device
	if d == nil {
		d = kernels.NewCPU(cpu.Options{ISA: s.isa, Threads: s.threads, Float32Activations: c.exact})
		defer d.Close()
	}
	r := rand.New(rand.NewPCG(s.pagesSeed, 7))
	const neighbourTokens = 40
	own, other := c.tokens/s.pageTokens+1, neighbourTokens/s.pageTokens+1
	start, total := startFor(c.start, own+2*other+3)
	cache := NewCache(d, c.kf, c.vf, c.kvHeads, c.d, s.pageTokens, total, start)
	for _, b := range []*kernels.Buffer{cache.K, cache.V} {
		for i := range b.Bytes {
			b.Bytes[i] = 0xff
		}
	}
	table := randomPages(r, own+2*other+3)
	pages := c.table(s, start.place(table[:own], s.pageTokens))
	var sinks kernels.Tensor
	if c.sinks {
		sinks = kernels.FromFloat32s(d, 1, c.heads, c.logits)
	}
	var out []byte
	for i, from := range append([]int{0}, s.cuts...) {
		to := c.tokens
		if i < len(s.cuts) {
			to = s.cuts[i]
		}
		rows, first := to-from, 0
		spans := []kernels.Span{{Rows: rows, Pos: from, Pages: pages}}
		if s.neighbours {
			first = 3
			spans = []kernels.Span{
				{Rows: first, Pos: 17, Pages: table[own:][:other]},
				{Row: first, Rows: rows, Pos: from, Pages: pages},
				{Row: first + rows + 1, Rows: 1, Pos: 30, Pages: table[own+other:][:other]},
			}
			rows += first + 2
		}
		for j := range spans {
			if s.device != nil && spans[j].Pos != 30 {
				spans[j].Prefill = spans[j].Rows
			}
		}
		batch := func(width int, own []float32) kernels.Tensor {
			t := kernels.NewTensor(d, kernels.F32, rows, width)
			if s.neighbours {
				t = kernels.RandomTensor(d, r, rows, width, 1)
			}
			copy(t.Float32s()[first*width:], own[from*width:to*width])
			return t
		}
		q, k, v := batch(c.heads*c.d, c.q), batch(c.kvHeads*c.d, c.k), batch(c.kvHeads*c.d, c.v)
		d.Run(&Append{K: k, V: v, Cache: cache, Spans: spans})
		o := &Attention{
			Q: q, Out: kernels.NewTensor(d, kernels.F32, rows, c.heads*c.d), Cache: cache,
			Spans: spans, Scale: 0.2, Cap: c.cap, Window: c.window, SinkTokens: c.sinkTokens,
			Sinks: sinks,
		}
		d.Run(o)
		if err := d.Sync(); err != nil {
			panic(err)
		}
		out = append(out, kerneltest.Elements(o.Out.RowRange(first, first+to-from))...)
	}
	return out
}

// cutMatters reports whether to test a cut. Of a conversation of up to 200 tokens it selects all
// cuts, which cover every offset in a tile and in a page. Of one of up to 1,000 tokens it selects
// the cuts around the ends of pages, which include the ends of tiles and segments. With
// HEADROOM_LONG set it selects every cut.
func (c conversation) cutMatters(cut int) bool {
	const page = 16 // smallest page size
	return os.Getenv("HEADROOM_LONG") != "" || c.tokens <= 200 || c.tokens <= 1000 &&
		(cut+1)%page <= 2
}

// TestSameBits runs conversations in every setting, with cuts around the ends of segments, tiles
// and pages, and expects the same bits each time.
func TestSameBits(t *testing.T) {
	long := os.Getenv("HEADROOM_LONG") != ""
	for i, c := range []conversation{
		{tokens: 600, heads: 4, kvHeads: 2, d: 32, kf: FloatFormat(kernels.F16),
			vf: FloatFormat(kernels.F16)},
		{tokens: 200, heads: 7, kvHeads: 1, d: 48, kf: FloatFormat(kernels.BF16),
			vf: FloatFormat(kernels.BF16), sinks: true},
		{tokens: 140, heads: 8, kvHeads: 1, d: 80, kf: FloatFormat(kernels.F16),
			vf: FloatFormat(kernels.F16)},
		{tokens: 600, heads: 2, kvHeads: 2, d: 16, kf: FloatFormat(kernels.F32),
			vf: FloatFormat(kernels.F32), window: 70},
		{tokens: 1100, heads: 3, kvHeads: 1, d: 16, kf: FloatFormat(kernels.F16),
			vf: FloatFormat(kernels.F16), window: 530, sinks: true},
		{tokens: 700, heads: 3, kvHeads: 1, d: 32, kf: FloatFormat(kernels.F16),
			vf: FloatFormat(kernels.F16), window: 70, sinkTokens: 4},
		{tokens: 1200, heads: 3, kvHeads: 1, d: 32, kf: affine(8, 32), vf: affine(4, 32),
			window: 520, sinkTokens: 20, sinks: true},
		{tokens: 600, heads: 4, kvHeads: 2, d: 64, kf: affine(8, 64), vf: affine(4, 32)},
		{tokens: 600, heads: 4, kvHeads: 2, d: 64, kf: affine(8, 64), vf: affine(4, 32),
			start: 512},
		// With one thread the heads alone give enough units.
		{tokens: 600, heads: 8, kvHeads: 4, d: 32, kf: affine(8, 32), vf: affine(4, 32),
			window: 560, sinkTokens: 20, sinks: true},
		{tokens: 1200, heads: 3, kvHeads: 1, d: 32, kf: Format{Kind: Q4_0},
			vf: FloatFormat(kernels.BF16), start: 1024, sinks: true},
		{tokens: 200, heads: 9, kvHeads: 1, d: 96, kf: affine(4, 32), vf: affine(8, 32),
			sinks: true},
		{tokens: 140, heads: 8, kvHeads: 1, d: 128, kf: Format{Kind: Q8_0}, vf: Format{Kind: Q4_0}},
		{tokens: 300, heads: 2, kvHeads: 2, d: 32, kf: Format{Kind: Q4_0},
			vf: FloatFormat(kernels.F16), window: 70},
		{tokens: 200, heads: 3, kvHeads: 1, d: 128, kf: FloatFormat(kernels.BF16),
			vf: affine(6, 128)},
		{tokens: 140, heads: 2, kvHeads: 1, d: 64, kf: affine(2, 32), vf: affine(3, 64), window: 50,
			sinks: true},
		{tokens: 140, heads: 2, kvHeads: 1, d: 64, kf: affine(6, 64), vf: affine(5, 32)},
		{tokens: 200, heads: 6, kvHeads: 1, d: 64, kf: affine(8, 64), vf: affine(4, 32), window: 90,
			sinkTokens: 3, exact: true},
		{tokens: 140, heads: 13, kvHeads: 1, d: 32, kf: affine(3, 32), vf: Format{Kind: Q8_0},
			exact: true},
		{tokens: 140, heads: 7, kvHeads: 1, d: 48, kf: FloatFormat(kernels.F16),
			vf: FloatFormat(kernels.F16), window: 70, cap: 1.5},
		{tokens: 600, heads: 4, kvHeads: 2, d: 64, kf: affine(8, 64), vf: affine(4, 32), cap: 1.5},
	} {
		if kerneltest.RaceDetector {
			c.tokens = min(c.tokens, 200) // enough for several threads; plain Go is very slow
		}
		c = newConversation(c)
		others := 0
		for _, isa := range cpu.Available() {
			// Beside the best instruction set, each conversation has another one by turns.
			if isa != cpu.Best() {
				if others++; !long && others%2 != i%2 {
					continue
				}
			}
			t.Run(fmt.Sprintf("%d tokens window %d %s exact %t %s", c.tokens, c.window,
				formatNames(c.kf, c.vf), c.exact, isa), func(t *testing.T) {
				whole := setting{isa: isa, threads: 1, pageTokens: 32}
				want := c.run(whole)
				expect := func(what string, change func(*setting)) {
					t.Helper()
					s := whole
					change(&s)
					if got := c.run(s); !bytes.Equal(got, want) {
						at := firstDifference(got, want) / 4
						t.Errorf("%s: token %d, head %d, dimension %d differs", what,
							at/(c.heads*c.d), at/c.d%c.heads, at%c.d)
					}
				}
				expect("3 threads", func(s *setting) { s.threads = 3 })
				expect("other pages", func(s *setting) { s.pagesSeed = 99 })
				expect("pages of 16 tokens", func(s *setting) { s.pageTokens = 16 })
				if c.start == 0 { // a Start consists of whole pages
					expect("pages of 48 tokens", func(s *setting) { s.pageTokens = 48 })
				}
				expect("with neighbours", func(s *setting) { s.neighbours = true })
				// All cuts on the best instruction set, some on the others.
				all := isa == cpu.Best() && isa != cpu.Generic && !testing.Short()
				for cut := 1; cut < c.tokens; cut++ {
					if cut%197 == 1 || all && c.cutMatters(cut) {
						expect(fmt.Sprintf("cut at %d", cut),
							func(s *setting) { s.cuts = []int{cut} })
					}
				}
				expect("token by token, 3 threads, with neighbours", func(s *setting) {
					for i := 1; i < c.tokens; i++ {
						s.cuts = append(s.cuts, i)
					}
					s.threads, s.neighbours = 3, true
				})
				if c.window > 0 {
					expect("in a ring, token by token, then in chunks of 37", func(s *setting) {
						for i := 1; i < c.tokens; i++ {
							if i < 100 || i%37 == 0 {
								s.cuts = append(s.cuts, i)
							}
						}
						s.ring, s.pageTokens = true, 16
					})
				}
				expect("drafts of 5 tokens", func(s *setting) {
					for i := 5; i < c.tokens; i += 5 {
						s.cuts = append(s.cuts, i)
					}
				})
			})
		}
	}
}

// TestStart checks that rows in the Start have the same bits as with a float16 cache. Rows after it
// must differ from both a float16 cache and a cache without a Start.
func TestStart(t *testing.T) {
	for _, isa := range cpu.Available() {
		run := func(k, v Format, start int) []byte {
			c := newConversation(conversation{tokens: 560, heads: 2, kvHeads: 1, d: 64, kf: k,
				vf: v, start: start})
			return c.run(setting{isa: isa, threads: 2, pageTokens: 32})
		}
		f16, n := FloatFormat(kernels.F16), 512*2*64*4 // bytes of the start
		got, exact, coarse := run(affine(8, 64), affine(4, 32), 512), run(f16, f16, 0),
			run(affine(8, 64), affine(4, 32), 0)
		if !bytes.Equal(got[:n], exact[:n]) {
			t.Errorf("%s: token %d in the start differs from a float16 cache", isa,
				firstDifference(got, exact)/(2*64*4))
		}
		if bytes.Equal(got[n:], exact[n:]) || bytes.Equal(got[n:], coarse[n:]) {
			t.Errorf("%s: after the start: the output equals that of another cache format", isa)
		}
	}
}

func firstDifference(a, b []byte) int {
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return len(a)
}

// TestInstructionSetsAgree checks that all instruction sets give the same bits, so that results do
// not depend on the machine. Plain Go is exempt.
func TestInstructionSetsAgree(t *testing.T) {
	f16 := FloatFormat(kernels.F16)
	for _, f := range [][2]Format{{f16, f16}, {affine(8, 32), affine(4, 32)},
		{affine(5, 32), affine(3, 32)}, {affine(6, 32), affine(2, 32)},
		{{Kind: Q8_0}, {Kind: Q4_0}}} {
		for _, exact := range []bool{false, true} {
			c := newConversation(conversation{
				tokens: 700, heads: 10, kvHeads: 1, d: 96, kf: f[0], vf: f[1], window: 600,
				sinkTokens: 30, sinks: true, exact: exact, cap: 3,
			})
			var want []byte
			for _, isa := range cpu.Available() {
				if isa == cpu.Generic {
					continue
				}
				got := c.run(setting{isa: isa, threads: 2, pageTokens: 32})
				if want != nil && !bytes.Equal(got, want) {
					t.Errorf("%s, exact %t: %s differs from the previous instruction set",
						formatNames(f[0], f[1]), exact, isa)
				}
				want = got
			}
		}
	}
}

// TestSeenBy compares seenBy with the sum over single rows.
func TestSeenBy(t *testing.T) {
	for _, o := range []*Attention{{}, {Window: 1}, {Window: 70}, {Window: 70, SinkTokens: 4},
		{Window: 5, SinkTokens: 60}} {
		for _, rows := range [][2]int{{0, 1}, {0, 300}, {3, 9}, {63, 65}, {69, 80}, {73, 75},
			{74, 74}, {200, 231}} {
			want := int64(0)
			for pos := rows[0]; pos < rows[1]; pos++ {
				want += int64(o.seen(pos))
			}
			if got := o.seenBy(rows[0], rows[1]); got != want {
				t.Errorf("window %d, %d sinks, rows %v: got %d, expected %d", o.Window,
					o.SinkTokens, rows, got, want)
			}
		}
	}
}

// TestNothingAllocated checks that decoding does not allocate.
func TestNothingAllocated(t *testing.T) {
	d := kernels.NewCPU(cpu.Options{Threads: 2})
	defer d.Close()
	for _, f := range [][2]Format{{FloatFormat(kernels.F16), FloatFormat(kernels.F16)},
		{affine(8, 64), affine(4, 32)}, {{Kind: Q4_0}, affine(3, 32)}} {
		o := shape{k: f[0], v: f[1], heads: 4, kvHeads: 2, d: 64, p: 32,
			spans: [][3]int{{1100, 1}, {0, 20}}}.build(d, rand.New(rand.NewPCG(1, 2)))
		if n := testing.AllocsPerRun(20, func() { d.Run(o) }); n > 0 {
			t.Errorf("%s: attention allocates %g times", formatNames(f[0], f[1]), n)
		}
		a := &Append{K: kernels.NewTensor(d, kernels.F32, 9, 128),
			V: kernels.NewTensor(d, kernels.F32, 9, 128), Cache: o.Cache,
			Spans: []kernels.Span{{Rows: 9, Pos: 1000, Pages: o.Spans[0].Pages}}}
		if n := testing.AllocsPerRun(20, func() { d.Run(a) }); n > 0 {
			t.Errorf("%s: appending allocates %g times", formatNames(f[0], f[1]), n)
		}
	}
}

// TestCapByHand has scores of 0 and ln 3 after the scale, and a cap of 2. tanh(ln 3 / 2) is 1/2, so
// the softmax is over 0 and 1. The values are 0 and 1.
func TestCapByHand(t *testing.T) {
	want := math.E / (1 + math.E)
	for _, d := range append(kerneltest.Devices(t), kernels.NewReference()) {
		for _, prefill := range []int{0, 2} {
			const dim = 16
			cache := NewCache(d, FloatFormat(kernels.F32), FloatFormat(kernels.F32), 1, dim, 16, 1,
				Start{})
			x := func() kernels.Tensor { return kernels.NewTensor(d, kernels.F32, 2, dim) }
			q, k, v, out := x(), x(), x(), x()
			q.Row(1)[3], k.Row(1)[3], v.Row(1)[5] = float32(math.Log(81)), 1, 1
			spans := []kernels.Span{{Rows: 2, Pages: []int32{0}, Prefill: prefill}}
			d.Run(&Append{K: k, V: v, Cache: cache, Spans: spans})
			d.Run(&Attention{Q: q, Out: out, Cache: cache, Spans: spans, Scale: 0.25, Cap: 2})
			if err := d.Sync(); err != nil {
				t.Fatal(err)
			}
			if got := out.Row(1)[5]; math.Abs(float64(got)-want) > 1e-6 || out.Row(0)[5] != 0 {
				t.Errorf("%s, %d prefill rows: got %g, expected %g", d.Name(), prefill, got, want)
			}
		}
	}
}

func TestCheckNamesTheFault(t *testing.T) {
	d := kernels.NewReference()
	defer d.Close()
	good := func() *Attention {
		return shape{k: FloatFormat(kernels.F16), v: FloatFormat(kernels.F16), heads: 4, kvHeads: 2,
			d: 32, p: 32, spans: [][3]int{{60, 10}}}.build(d, rand.New(rand.NewPCG(1, 2)))
	}
	if err := good().Check(); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name  string
		spoil func(*Attention)
		want  string
	}{
		{"short page table", func(o *Attention) { o.Spans[0].Pages = o.Spans[0].Pages[:2] },
			"page table of 2 pages"},
		{"page outside the cache", func(o *Attention) { o.Spans[0].Pages = []int32{0, 1, 9} },
			"got page 9"},
		{"negative cap", func(o *Attention) { o.Cap = -1 }, "cap: got -1"},
		{"sinks without a window", func(o *Attention) { o.SinkTokens = 4 }, "0 without a window"},
		{"sinks in more than a tile", func(o *Attention) { o.Window, o.SinkTokens = 8, 65 },
			"expected 0 to 64"},
		{"page of the sinks outside the cache",
			func(o *Attention) {
				o.Window, o.SinkTokens = 8, 1
				o.Spans[0].Pages = []int32{9, 1, 2}
			}, "got page 9"},
		{"negative page", func(o *Attention) { o.Spans[0].Pages = []int32{0, -1, 2} },
			"got page -1"},
		{"head dimension", func(o *Attention) { o.Cache.HeadDim = 24 }, "multiples of 16"},
		{"page size", func(o *Attention) { o.Cache.PageTokens = 8 }, "multiples of 16"},
		{"cache type", func(o *Attention) { o.Cache.KFormat.DType = kernels.I8 }, "int8"},
		{"no cache", func(o *Attention) { o.Cache = nil }, "cache: got none"},
		{"query width", func(o *Attention) { o.Q = o.Q.Columns(0, 96) }, "multiple of 2 KV heads"},
		{"output width", func(o *Attention) { o.Out = o.Out.Columns(0, 64) }, "out: got"},
		{"sinks", func(o *Attention) { o.Sinks = kernels.NewTensor(d, kernels.F32, 1, 3) },
			"sinks: got"},
		{"window", func(o *Attention) { o.Window = -1 }, "window: got -1"},
		{"window over a start", func(o *Attention) { o.Window, o.Cache.Start = 8, Start{512, 3} },
			"without a start"},
		{"half a start", func(o *Attention) { o.Cache.Start.Tokens = 32 }, "a start of 32 tokens"},
		{"pages without a start", func(o *Attention) { o.Cache.Start.Pages = 1 },
			"a start of 0 tokens"},
		{"page past the start", func(o *Attention) { o.Cache.Start = Start{512, 2} },
			"expected one of [0, 2)"},
		{"page of the start", func(o *Attention) { // for the position after the Start
			o.Cache.Start, o.Spans[0].Pos, o.Spans[0].Rows = Start{512, 2}, 512, 1
			o.Spans[0].Pages = append(make([]int32, 16), 1)
		}, "expected one of [2, 4)"},
		{"span", func(o *Attention) { o.Spans[0].Rows = 99 }, "span 0"},
	} {
		o := good()
		test.spoil(o)
		if err := o.Check(); err == nil || !bytes.Contains([]byte(err.Error()), []byte(test.want)) {
			t.Errorf("%s: got %v, expected an error with %q", test.name, err, test.want)
		}
	}
	// Pages before the window may be freed.
	o := good()
	o.Window, o.Spans[0].Pages = 8, slices.Clone(o.Spans[0].Pages)
	o.Spans[0].Pages[0] = -1
	if err := o.Check(); err != nil {
		t.Errorf("a page before the window: %v", err)
	}
}

// TestHalf checks the plain Go conversions: every float16 survives a round trip, and halfway values
// round to even.
func TestHalf(t *testing.T) {
	for h := range 1 << 16 {
		x := fromFloat16(uint16(h))
		if x != x || h&0x7fff == 0x7c00 {
			continue
		}
		if got := toFloat16(x); got != uint16(h) {
			t.Fatalf("float16 %#04x is %g, which became %#04x", h, x, got)
		}
	}
	for _, test := range []struct {
		x    float32
		want uint16
	}{
		{1 + 1.0/2048, 0x3c00}, {1 + 3.0/2048, 0x3c02}, {65519, 0x7bff}, {1e9, 0x7bff},
		{-1e9, 0xfbff}, {1.0 / (1 << 25), 0}, {3.0 / (1 << 25), 2},
		{0x1.ffep-15, 0x0400}, {-0x1p-14, 0x8400},
	} {
		if got := toFloat16(test.x); got != test.want {
			t.Errorf("float16 of %g: got %#04x, expected %#04x", test.x, got, test.want)
		}
	}
}
