package sample

// Choosing on the device, with a host that is one token behind: it knows all but the last token of
// a sequence, and the device knows that.

import (
	"slices"

	"headroom/kernels/sampling"
)

// Placeholder stands in a sequence for the token that a row of the last pass will have chosen. It
// is below 0, as no token is.
func Placeholder(row int) int32 { return sampling.Placeholder(row) }

// Chosen is what a device has chosen, as Sample would have answered.
func Chosen(token int32) (Result, error) { return Result{Token: token}, sampling.Fault(token) }

// What goes to the device with every row at most.
const (
	maxDeviceWindow = 256  // recent tokens
	maxDeviceBiases = 1024 // tokens with a logit bias
)

// OnDevice tells whether a device can choose this sequence's tokens (kernels/sampling). It cannot
// where the host looks at the logits: for logprobs, or a logit bias or penalties on very many
// tokens.
func (s *Sampler) OnDevice() bool {
	return s.params.Logprobs < 0 && len(s.biases) <= maxDeviceBiases &&
		len(s.recent.ring) <= maxDeviceWindow
}

// Rows is what a device needs to choose the next token of several sequences, a row each.
type Rows struct {
	Settings    []sampling.Settings
	Adjustments []sampling.Adjustment
	adjusts     bool // some adjustment is not empty
}

// Reset makes it empty. Its memory is used again.
func (r *Rows) Reset() {
	r.Settings, r.Adjustments, r.adjusts = r.Settings[:0], r.Adjustments[:0], false
}

// Adjusted is the adjustments, nil if none of them changes anything.
func (r *Rows) Adjusted() []sampling.Adjustment {
	if !r.adjusts {
		return nil
	}
	return r.Adjustments
}

// Add appends a row for the token that s.Sample would choose. With last below 0 the device knows
// one token more than s has observed: the one that this placeholder stands for.
func (r *Rows) Add(s *Sampler, last int32) {
	position := s.observed
	if last < 0 {
		position++
	}
	r.Settings = append(r.Settings, s.settings(position))
	// with the memory of the row that was here before
	r.Adjustments = slices.Grow(r.Adjustments, 1)[:len(r.Adjustments)+1]
	h := &r.Adjustments[len(r.Adjustments)-1]
	h.Biases, h.Penalties, h.Recent, h.Chosen = s.biases, s.params.penalties(), h.Recent[:0], -1
	r.adjusts = r.adjusts || len(s.biases) > 0
	w := &s.recent
	if len(w.ring) == 0 {
		return
	}
	r.adjusts = true
	leaving := int32(-1) // the window, when the last token comes in
	if last < 0 {
		if h.Chosen = sampling.PlaceholderRow(last); w.filled == len(w.ring) {
			leaving = w.ring[w.next]
		}
	}
	for id, count := range w.counts {
		if id == leaving {
			count--
		}
		if count > 0 {
			h.Recent = append(h.Recent, sampling.TokenCount{Token: id, Count: count})
		}
	}
}
