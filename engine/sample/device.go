package sample

// Sampling on the device. The host learns each token one pass later, so only the device knows the
// last token of a sequence.

import (
	"slices"

	"headroom/kernels/sampling"
)

// Placeholder returns a negative number that stands for the token that a row of the pass in flight
// will choose.
func Placeholder(row int) int32 { return sampling.Placeholder(row) }

// Chosen returns the result for a token that a device has chosen. It returns an error, like Sample,
// if the device found no valid logits.
func Chosen(token int32) (Result, error) { return Result{Token: token}, sampling.Fault(token) }

// Limits of the data that a row sends to the device.
const (
	maxDeviceWindow = 256  // recent tokens
	maxDeviceBiases = 1024 // tokens with a logit bias
)

// OnDevice reports whether a device can choose this sequence's tokens (kernels/sampling). It cannot
// if the host needs the logits, which is the case for logprobs, for masks, for XTC and DRY, for a
// caller's own functions, for penalties that count different tokens, and for a logit bias or
// penalties on very many tokens.
func (s *Sampler) OnDevice() bool {
	return s.params.Logprobs < 0 && !s.masked && s.xtc == nil && s.repeats == nil &&
		!s.params.Custom.IsSet() &&
		len(s.biases) <= maxDeviceBiases && (len(s.recent) == 0 ||
		len(s.recent) == 1 && len(s.recent[0].ring) <= maxDeviceWindow)
}

// Remembers reports whether the next token depends on which tokens came before, and not only on
// their number and the logits.
func (s *Sampler) Remembers() bool {
	return len(s.recent) > 0 || s.repeats != nil || s.params.Custom.IsSet()
}

// Rows holds the data with which a device chooses the next tokens of several sequences, one row for
// each.
type Rows struct {
	Settings    []sampling.Settings
	Adjustments []sampling.Adjustment
	adjusts     bool // one of Adjustments is not empty
}

// Reset empties r and keeps its memory.
func (r *Rows) Reset() {
	r.Settings, r.Adjustments, r.adjusts = r.Settings[:0], r.Adjustments[:0], false
}

// Adjusted returns the adjustments, or nil if all of them are empty.
func (r *Rows) Adjusted() []sampling.Adjustment {
	if !r.adjusts {
		return nil
	}
	return r.Adjustments
}

// Add appends a row for the token that s.Sample would choose after the token last. If last is
// negative, it is a placeholder: the device knows that token, but s has not observed it.
func (r *Rows) Add(s *Sampler, last int32) {
	position := s.observed
	if last < 0 {
		position++
	}
	h := r.add(s, position)
	if len(s.recent) == 0 {
		return
	}
	w := &s.recent[0] // OnDevice: the only one
	h.Penalties, r.adjusts = w.penalties, true
	leaving := int32(-1) // the token that leaves the window when the last one enters
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

// AddAfter appends a row for the token that s.Sample would choose after so many more tokens. s must
// not remember tokens.
func (r *Rows) AddAfter(s *Sampler, tokens int) {
	if s.Remembers() {
		panic("sample.Rows.AddAfter: the sampler needs the tokens: sample on the host")
	}
	r.add(s, s.observed+uint64(tokens))
}

// add appends a row for the token at a position of the sequence, and returns its adjustment without
// recent tokens.
func (r *Rows) add(s *Sampler, position uint64) *sampling.Adjustment {
	r.Settings = append(r.Settings, s.settings(position))
	// This reuses the memory of an earlier row.
	r.Adjustments = slices.Grow(r.Adjustments, 1)[:len(r.Adjustments)+1]
	h := &r.Adjustments[len(r.Adjustments)-1]
	h.Biases, h.Penalties, h.Recent, h.Chosen = s.biases, sampling.Penalties{}, h.Recent[:0], -1
	r.adjusts = r.adjusts || len(s.biases) > 0
	return h
}
