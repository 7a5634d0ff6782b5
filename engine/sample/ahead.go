package sample

// Choosing on the device, with a host that is one token behind: it knows all but the last token of a sequence, and the device knows that.

import (
	"slices"

	"headroom/kernels/sampling"
)

// Placeholder stands in a sequence for the token that a row of the last pass will have chosen. It is below 0, as no token is.
func Placeholder(row int) int32 { return sampling.Placeholder(row) }

// Chosen is what a device has chosen, as Sample would have answered.
func Chosen(token int32) (Result, error) { return Result{Token: token}, sampling.Fault(token) }

// maxDeviceWindow is how many recent tokens go to the device with every row at most.
const maxDeviceWindow = 256

// OnDevice tells whether a device can choose this sequence's tokens (kernels/sampling). It cannot where the host looks at the logits: for
// logprobs, a logit bias, or penalties on very many tokens.
func (s *Sampler) OnDevice() bool {
	return s.params.Logprobs < 0 && len(s.params.LogitBias) == 0 && len(s.recent.ring) <= maxDeviceWindow
}

// Rows is what a device needs to choose the next token of several sequences, a row each.
type Rows struct {
	Settings  []sampling.Settings
	Histories []sampling.History
	penalizes bool // some history is not empty
}

// Reset makes it empty. Its memory is used again.
func (r *Rows) Reset() { r.Settings, r.Histories, r.penalizes = r.Settings[:0], r.Histories[:0], false }

// Recent is the histories, nil if none of them changes anything.
func (r *Rows) Recent() []sampling.History {
	if !r.penalizes {
		return nil
	}
	return r.Histories
}

// Add appends a row for the token that s.Sample would choose. With last below 0 the device knows one token more than s has observed:
// the one that this placeholder stands for.
func (r *Rows) Add(s *Sampler, last int32) {
	position := s.observed
	if last < 0 {
		position++
	}
	r.Settings = append(r.Settings, s.settings(position))
	r.Histories = slices.Grow(r.Histories, 1)[:len(r.Histories)+1] // with the memory of the row that was here before
	h := &r.Histories[len(r.Histories)-1]
	h.Penalties, h.Recent, h.Chosen = s.params.penalties(), h.Recent[:0], -1
	w := &s.recent
	if len(w.ring) == 0 {
		return
	}
	r.penalizes = true
	leaving := int32(-1) // the window, when the last token comes in
	if last < 0 {
		if h.Chosen = sampling.RowOf(last); w.filled == len(w.ring) {
			leaving = w.ring[w.next]
		}
	}
	for id, count := range w.counts {
		if id == leaving {
			count--
		}
		if count > 0 {
			h.Recent = append(h.Recent, sampling.Recent{Token: id, Count: count})
		}
	}
}
