package cache

// A layer with a window stores no more than the window: each slot has a ring of pages. The pages
// have the same formats and layout as other pages, so the same kernels read them through another
// page table. A slot has the pages [slot*R, (slot+1)*R) of its layer's memory. The first S pages
// hold the sinks, which stay visible. The other T pages are reused in turn:
//
//	page of position p = slot*R + p/P               if p/P < S
//	                   = slot*R + S + (p/P - S) mod T  else, R = S + T
//
// A pass writes the keys of all its rows before any row reads them. So T pages have room for the
// window and the longest span, minus the one position that is in both. A copy of the ring after the
// pass is therefore valid for every position inside the pass too. It contains everything that a row
// at that position attends to, and later positions are written again before they are read.
//
// A ring has a fixed size and belongs to a sequence, like recurrent state. It is copied, saved and
// restored with that state.

import (
	"fmt"
	"maps"
	"slices"

	"headroom/kernels"
)

// sinkTokens is the number of first positions that stay visible in layers to which Limit adds a
// window. The rotating cache of mlx-lm uses the same number.
const sinkTokens = 4

// MinLimitTokens is the smallest limit that Limit applies.
const MinLimitTokens = PageTokens

// Ring has the page tables that all layers with the same window share.
type Ring struct {
	Window     int // positions that a row attends to, including its own
	SinkTokens int // first positions that every row attends to in addition
	SlotPages  int // R: pages of one slot in each of the layers

	tablePages int
	tables     [][]int32 // by slot; nil until a sequence runs in the slot
	spans      []kernels.Span
}

func newRing(s LayerSpec, o Options) *Ring {
	return &Ring{Window: s.Window, SinkTokens: s.SinkTokens, SlotPages: s.ringPages(o.SpanTokens),
		tablePages: o.Pages, tables: make([][]int32, o.Slots)}
}

// sinkPages returns S, the number of pages that are not reused.
func (s LayerSpec) sinkPages() int { return (s.SinkTokens + PageTokens - 1) / PageTokens }

// ringPages returns R for passes with spans of up to spanTokens.
func (s LayerSpec) ringPages(spanTokens int) int {
	return s.sinkPages() + (s.Window+max(spanTokens, 1)-1+PageTokens-1)/PageTokens
}

// Spans returns spans with the page tables of their slots' rings. The result is valid until the
// next call. Spans is not safe for concurrent use.
func (r *Ring) Spans(spans []kernels.Span) []kernels.Span {
	r.spans = append(r.spans[:0], spans...)
	for i := range r.spans {
		r.spans[i].Pages = r.table(r.spans[i].Slot)
	}
	return r.spans
}

func (r *Ring) sinkPages() int { return (r.SinkTokens + PageTokens - 1) / PageTokens }

// table returns the page table of the sequence in slot, long enough for all pages of the pool.
func (r *Ring) table(slot int32) []int32 {
	if t := r.tables[slot]; t != nil {
		return t
	}
	sinks := r.sinkPages()
	t := make([]int32, r.tablePages)
	for i := range t {
		page := i
		if i >= sinks {
			page = sinks + (i-sinks)%(r.SlotPages-sinks)
		}
		t[i] = slot*int32(r.SlotPages) + int32(page)
	}
	r.tables[slot] = t
	return t
}

// used tells which positions of a slot's pages the row after so many tokens attends to.
func (r *Ring) used(tokens int) []bool {
	used, sinks := make([]bool, r.SlotPages*PageTokens), r.sinkPages()
	mark := func(from, to int) {
		for pos := max(from, 0); pos < min(to, tokens); pos++ {
			page := pos / PageTokens
			if page >= sinks {
				page = sinks + (page-sinks)%(r.SlotPages-sinks)
			}
			used[page*PageTokens+pos%PageTokens] = true
		}
	}
	mark(0, r.SinkTokens)
	mark(tokens+1-r.Window, tokens)
	return used
}

// RingBytes returns the bytes of one sequence's rings, summed over all layers, for passes with
// spans of up to spanTokens.
func RingBytes(specs []LayerSpec, f Format, spanTokens int) int64 {
	n := int64(0)
	for i, l := range f.Layers(specs) {
		if s := specs[i]; s.Window > 0 {
			n += int64(s.ringPages(spanTokens)) * s.pageBytes(l)
		}
	}
	return n
}

// Limit returns specs in which no attention layer stores more than maxTokens positions of a
// sequence. A layer without a window gets a window and sinks. A larger window is shortened and gets
// no sinks, because its layer was trained without them. A maxTokens of 0 means no limit. A value
// below MinLimitTokens is raised to MinLimitTokens.
func Limit(specs []LayerSpec, maxTokens int) []LayerSpec {
	if maxTokens <= 0 {
		return specs
	}
	maxTokens = max(maxTokens, MinLimitTokens)
	specs = slices.Clone(specs)
	for i := range specs {
		switch s := &specs[i]; {
		case s.KVHeads > 0 && s.Window == 0:
			s.Window, s.SinkTokens = maxTokens-sinkTokens, sinkTokens
		case s.Window > maxTokens:
			s.Window = maxTokens
		}
	}
	return specs
}

// DescribeRings describes the layers with a window, such as "; 5 of 6 layers keep 512 tokens". The
// text begins with a semicolon. It is empty if there are no such layers.
func DescribeRings(specs []LayerSpec) (words string) {
	layers := 0
	counts := map[int]int{} // of layers, by the positions that they keep
	for _, s := range specs {
		if s.KVHeads > 0 {
			layers++
		}
		if s.Window > 0 {
			counts[s.Window+s.SinkTokens]++
		}
	}
	for _, tokens := range slices.Sorted(maps.Keys(counts)) {
		if counts[tokens] == layers {
			return fmt.Sprintf("; %d tokens", tokens)
		}
		words += fmt.Sprintf("; %d of %d layers keep %d tokens", counts[tokens], layers, tokens)
	}
	return words
}
