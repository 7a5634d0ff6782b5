package cache

// Layers that see only a window of what came before keep no more than that: for each slot a ring of
// pages of its own, in the formats and the layout of every other page, so that the same kernels
// read it through another page table. A slot has the pages [slot*R, (slot+1)*R) of its layer's
// memory; the first ones hold the positions that stay visible, the others take turns:
//
//	page of position p = slot*R + p/P               if p/P < S
//	                   = slot*R + S + (p/P - S) mod T  else, R = S + T
//
// A pass writes the keys of all its rows before any of them looks, so T pages hold the window and
// the longest span, less the one position that both count. Then a copy of the ring made after the
// pass serves every position inside the pass too: what it needs lies at most that far back, and
// what the ring holds from behind it is written again before it is seen.
//
// So a ring is memory of fixed size that belongs to a sequence, as recurrent state is: it is kept,
// copied and restored with it.

import (
	"fmt"
	"maps"
	"slices"

	"headroom/kernels"
)

// sinkTokens is how many first positions stay visible in layers that Limit cuts down, as mlx-lm's
// rotating cache keeps.
const sinkTokens = 4

// MinLimitTokens is the least that Limit leaves a layer.
const MinLimitTokens = PageTokens

// Ring is the page tables of layers with the same window.
type Ring struct {
	Window     int // positions a row sees, its own included
	SinkTokens int // first positions that every row sees besides
	SlotPages  int // R: pages of one slot in each of the layers

	tablePages int
	tables     [][]int32 // by slot, made when a sequence first runs in it
	spans      []kernels.Span
}

func newRing(s LayerSpec, o Options) *Ring {
	return &Ring{Window: s.Window, SinkTokens: s.SinkTokens, SlotPages: s.ringPages(o.SpanTokens),
		tablePages: o.Pages, tables: make([][]int32, o.Slots)}
}

// sinkPages is S, the pages that do not turn.
func (s LayerSpec) sinkPages() int { return (s.SinkTokens + PageTokens - 1) / PageTokens }

// ringPages is R for passes with spans of up to spanTokens.
func (s LayerSpec) ringPages(spanTokens int) int {
	return s.sinkPages() + (s.Window+max(spanTokens, 1)-1+PageTokens-1)/PageTokens
}

// Spans is spans with the page tables of their slots' rings: valid until the next call, so one
// goroutine uses it.
func (r *Ring) Spans(spans []kernels.Span) []kernels.Span {
	r.spans = append(r.spans[:0], spans...)
	for i := range r.spans {
		r.spans[i].Pages = r.table(r.spans[i].Slot)
	}
	return r.spans
}

// table is where the positions of the sequence in slot lie, for sequences as long as all pages of
// the pool.
func (r *Ring) table(slot int32) []int32 {
	if t := r.tables[slot]; t != nil {
		return t
	}
	sinks := (r.SinkTokens + PageTokens - 1) / PageTokens
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

// RingBytes is the memory of one sequence's rings over all layers, when passes have spans of up to
// spanTokens.
func RingBytes(specs []LayerSpec, f Format, spanTokens int) int64 {
	n := int64(0)
	for i, l := range f.Layers(specs) {
		if s := specs[i]; s.Window > 0 {
			n += int64(s.ringPages(spanTokens)) * s.pageBytes(l)
		}
	}
	return n
}

// Limit is specs with no attention layer that keeps more than maxTokens positions of a sequence:
// the first few and the last ones in layers that see everything, the last ones in layers with a
// window, which have learned to do without the first. 0 is no limit; less than MinLimitTokens
// counts as that.
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

// DescribeRings says what layers keep less than all, as "; 5 of 6 layers keep 512 tokens". It
// begins with a semicolon, and is empty if there are none.
func DescribeRings(specs []LayerSpec) (words string) {
	layers := 0
	counts := map[int]int{} // by positions seen
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
