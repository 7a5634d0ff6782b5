package generate

// The parameters of XTC, DRY and the contexts of single penalties, as a request or a command line
// has them. Requests of OpenAI's dialect and the flags of serve share their names and limits.

import (
	"headroom/engine/sample"
	"math"
)

// Samplers are the parameters of samplers that few clients send, with the names of mlx-lm and
// llama.cpp. nil stands for a parameter that was not sent.
type Samplers struct {
	ContextTokens          *int     `json:"repetition_context_size"` // of all three penalties
	PresenceContextTokens  *int     `json:"presence_context_size"`
	FrequencyContextTokens *int     `json:"frequency_context_size"`
	XTCProbability         *float64 `json:"xtc_probability"`
	XTCThreshold           *float64 `json:"xtc_threshold"`
	DRYMultiplier          *float64 `json:"dry_multiplier"`
	DRYBase                *float64 `json:"dry_base"`
	DRYAllowedTokens       *int     `json:"dry_allowed_length"`
	DRYContextTokens       *int     `json:"dry_penalty_last_n"`
	DRYBreakers            []string `json:"dry_sequence_breakers"`
}

// Limits of Samplers.
const (
	// MaxPenaltyTokens is the most tokens that a penalty counts.
	MaxPenaltyTokens = sample.MaxContextTokens
	maxBreakers      = 64
	maxBreakerBytes  = 256
)

// SetSamplers sets the parameters of all samplers in s. Those that were not sent get the zero
// value, which is off or the default. The error is a *ParamError.
func (p *Params) SetSamplers(s *Samplers) error {
	if err := s.check(); err != nil {
		return err
	}
	p.PenaltyTokens = value(s.ContextTokens)
	p.PresencePenaltyTokens = value(s.PresenceContextTokens)
	p.FrequencyPenaltyTokens = value(s.FrequencyContextTokens)
	p.XTC = sample.XTC{Probability: float32(value(s.XTCProbability)),
		Threshold: float32(value(s.XTCThreshold))}
	if s.XTCThreshold != nil && *s.XTCThreshold == 0 {
		p.XTC.Threshold = math.SmallestNonzeroFloat32 // 0 is sample's default
	}
	p.DRY = sample.DRY{Multiplier: float32(value(s.DRYMultiplier)),
		Base: float32(value(s.DRYBase)), AllowedTokens: value(s.DRYAllowedTokens),
		Breakers: s.DRYBreakers}
	if n := s.DRYContextTokens; n != nil {
		p.DRY.ContextTokens = max(*n, 0) // -1: all
		if *n == 0 {
			p.DRY.Multiplier = 0
		}
	}
	return nil
}

// check returns a *ParamError about the first parameter that is out of range.
func (s *Samplers) check() error {
	for _, limited := range []struct {
		name      string
		value     *float64
		low, high float64
	}{
		{"xtc_probability", s.XTCProbability, 0, 1},
		{"xtc_threshold", s.XTCThreshold, 0, 1},
		{"dry_multiplier", s.DRYMultiplier, 0, 100},
		{"dry_base", s.DRYBase, 1, 100},
	} {
		if err := Within(limited.name, limited.value, limited.low, limited.high); err != nil {
			return err
		}
	}
	for _, limited := range []struct {
		name  string
		value *int
		low   int
	}{
		{"repetition_context_size", s.ContextTokens, 1},
		{"presence_context_size", s.PresenceContextTokens, 1},
		{"frequency_context_size", s.FrequencyContextTokens, 1},
		{"dry_allowed_length", s.DRYAllowedTokens, 1},
		{"dry_penalty_last_n", s.DRYContextTokens, -1},
	} {
		if n := limited.value; n != nil && (*n < limited.low || *n > MaxPenaltyTokens) {
			return BadParam(limited.name, "must be between %d and %d, got %d", limited.low,
				MaxPenaltyTokens, *n)
		}
	}
	const breakers = "dry_sequence_breakers"
	if len(s.DRYBreakers) > maxBreakers {
		return BadParam(breakers, "at most %d texts, got %d", maxBreakers, len(s.DRYBreakers))
	}
	for _, text := range s.DRYBreakers {
		if text == "" || len(text) > maxBreakerBytes {
			return BadParam(breakers, "expected texts of 1 to %d bytes, got one of %d",
				maxBreakerBytes, len(text))
		}
	}
	return nil
}

// value returns what p points to, or the zero value.
func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
