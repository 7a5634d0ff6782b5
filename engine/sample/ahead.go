package sample

// Choosing on the device, with a host that is one token behind: it knows all but the last token of a sequence, and the device knows that.

import "headroom/kernels/sampling"

// maxDeviceWindow is how many recent tokens go to the device with every row at most.
const maxDeviceWindow = 256

// OnDevice tells whether a device can choose this sequence's tokens (kernels/sampling). It cannot where the host looks at the logits: for
// logprobs, a logit bias, or penalties on very many tokens.
func (s *Sampler) OnDevice() bool {
	return s.params.Logprobs < 0 && len(s.params.LogitBias) == 0 && len(s.recent.ring) <= maxDeviceWindow
}

// Row is what a device needs to choose the token that Sample would. With chosen >= 0 the device knows one token more than has been
// observed: that row's of the pass before. h is filled, and its memory used again.
func (s *Sampler) Row(chosen int32, h *sampling.History) sampling.Settings {
	position := s.observed
	if chosen >= 0 {
		position++
	}
	h.Penalties, h.Recent, h.Chosen = s.params.penalties(), h.Recent[:0], -1
	if len(s.recent.ring) == 0 {
		return s.settings(position)
	}
	h.Chosen = chosen
	oldest := int32(-1) // leaves the window when the chosen token comes in
	if w := &s.recent; chosen >= 0 && w.filled == len(w.ring) {
		oldest = w.ring[w.next]
	}
	for id, count := range s.recent.counts {
		if id == oldest {
			count--
		}
		if count > 0 {
			h.Recent = append(h.Recent, sampling.Recent{Token: id, Count: count})
		}
	}
	return s.settings(position)
}

// Penalizes tells whether the sequence's Row has a history to look at.
func (s *Sampler) Penalizes() bool { return len(s.recent.ring) > 0 }
