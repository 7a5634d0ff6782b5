// Package batch defines the input of one forward pass: the prefill chunks and decode rows of
// several sequences, in one list of rows.
package batch

import (
	"slices"

	"headroom/kernels"
)

// Batch holds M tokens, one per row. Each sequence has a span of rows [Span.Row,
// Span.Row+Span.Rows) with tokens at consecutive positions. Every row belongs to exactly one span.
type Batch struct {
	Tokens kernels.Tensor // I32 [M, 1]
	Spans  []kernels.Span // in row order
	// Rounds lists the same rows again, for recurrent layers, which process a sequence in order. If
	// a state must be kept inside a span, the span is split there, and its pieces are in
	// consecutive rounds. If no span is split, there is one round with all Spans.
	Rounds []Round
	// Hidden tells where the hidden state before each row is.
	Hidden Hidden
	// Outputs are the rows whose hidden states are read after the pass; nil: all rows.
	Outputs *Outputs

	attended []kernels.Span // memory of Attended
}

// Attended returns Spans for attention to the positions of layers that keep all: spans whose rows
// read a selection have the page table and the positions of that. The result is valid until the
// next call.
func (b *Batch) Attended() []kernels.Span {
	b.attended = b.attended[:0]
	if !slices.ContainsFunc(b.Spans, func(s kernels.Span) bool { return s.Compacts() }) {
		return b.Spans
	}
	for _, s := range b.Spans {
		if s.Compacts() {
			s = s.Compacted()
		}
		b.attended = append(b.attended, s)
	}
	return b.attended
}

// Outputs selects rows of a batch. Layers that write no memory need to compute only these.
type Outputs struct {
	Rows []int32 // ascending
	// Batch has these rows alone: its row i is row Rows[i]. It has no Tokens and no Rounds.
	Batch Batch
}

// Select selects rows, which must be ascending, of the batch with the given spans. It keeps rows,
// and reuses the memory of the previous selection.
func (o *Outputs) Select(rows []int32, spans []kernels.Span) {
	o.Rows = rows
	selected, from, at := o.Batch.Spans[:0], -1, 0
	for i, row := range rows {
		for int(row) >= spans[at].Row+spans[at].Rows {
			at++
		}
		s := &spans[at]
		offset := int(row) - s.Row
		n := len(selected) - 1
		if from != at || selected[n].Pos+selected[n].Rows != s.Pos+offset {
			selected = append(selected,
				kernels.Span{Row: i, Pos: s.Pos + offset, Pages: s.Pages, Slot: s.Slot,
					Compact: s.Compact, Adapter: s.Adapter})
			from, n = at, n+1
		}
		selected[n].Rows++
		if offset < s.Prefill {
			selected[n].Prefill++
		}
	}
	o.Batch.Spans = selected
}

// Hidden lists hidden states by their rows in a pass and by slots, which keep the last one of each
// sequence for its next pass. The state before row RowsAfter[i] is that of row Rows[i], and the
// state before row RowsAfterSlots[i] is in slot Slots[i]. After the pass, slot LastSlots[i] gets
// that of row LastRows[i].
type Hidden struct {
	Rows, RowsAfter       []int32
	Slots, RowsAfterSlots []int32
	LastRows, LastSlots   []int32
}

// Set lists the hidden states of a pass with the given spans and rounds. The slot zero is what
// precedes the first token of a sequence. Set reuses the memory of the previous call.
func (h *Hidden) Set(spans []kernels.Span, rounds []Round, zero int32) {
	h.Rows, h.RowsAfter = h.Rows[:0], h.RowsAfter[:0]
	h.Slots, h.RowsAfterSlots = h.Slots[:0], h.RowsAfterSlots[:0]
	h.LastRows, h.LastSlots = h.LastRows[:0], h.LastSlots[:0]
	for _, s := range spans {
		slot := s.Slot
		if s.Pos == 0 {
			slot = zero
		}
		first, last := int32(s.Row), int32(s.Row+s.Rows-1)
		h.Slots, h.RowsAfterSlots = append(h.Slots, slot), append(h.RowsAfterSlots, first)
		for row := first; row < last; row++ {
			h.Rows, h.RowsAfter = append(h.Rows, row), append(h.RowsAfter, row+1)
		}
		h.LastRows, h.LastSlots = append(h.LastRows, last), append(h.LastSlots, s.Slot)
	}
	for _, r := range rounds {
		for _, k := range r.Keeps {
			for _, s := range r.Spans {
				if s.Slot == k.From {
					h.LastRows = append(h.LastRows, int32(s.Row+s.Rows-1))
					h.LastSlots = append(h.LastSlots, k.To)
				}
			}
		}
	}
}

// Round holds spans of different sequences, and the states to keep after these spans.
type Round = kernels.Round

// Keep tells recurrent layers to copy the state in slot From to slot To.
type Keep = kernels.Keep

// Rows returns M.
func (b *Batch) Rows() int { return b.Tokens.Rows }
