// Package sample turns a row of logits into a token.
//
// A Sampler belongs to one sequence. It holds the sequence's parameters, its seed and the recent
// tokens that the penalties count. So a draw never depends on the rest of the batch. A Sampler
// chooses tokens on the host, or gives a device the data to choose the same tokens (device.go).
//
// The steps have the same order as in mlx-lm (mlx_lm/sample_utils.py):
//
//	logits  + logit bias, then repetition, presence and frequency penalty, DRY, the caller's own
//	        function, then the mask
//	logp    = log-softmax of these logits, without temperature; logprobs report these
//	greedy  the largest logit, the lowest id on ties, if the temperature is 0
//	filters top-p, min-p, XTC, top-k, on logp; then a draw with weights exp(logp/temperature)
//
// V is the size of the vocabulary, up to about 250,000. Rows have shape [V].
package sample

import (
	"cmp"
	"fmt"
	"math"
	"strconv"

	"headroom/kernels/sampling"
)

// Params are the sampling parameters of a sequence. The zero value means greedy decoding, and
// reports the chosen token's logprob.
type Params struct {
	Temperature float32 // 0: greedy
	// TopP keeps the most likely tokens that together reach this probability; 0 or 1: off.
	TopP float32
	MinP float32 // drop tokens below this share of the largest probability; 0: off
	TopK int     // keep this many of the most likely tokens; 0 or -1: off

	// RepetitionPenalty divides positive and multiplies negative logits of recent tokens; 0 or 1:
	// off.
	RepetitionPenalty float32
	PresencePenalty   float32 // subtracted once from the logit of a recent token; 0: off
	FrequencyPenalty  float32 // subtracted once for each occurrence; 0: off

	// RepetitionContextTokens is the number of last tokens, prompt included, that count as recent
	// for the repetition penalty; 0: DefaultContextTokens. The other two penalties have the same
	// number unless they have their own.
	RepetitionContextTokens int
	PresenceContextTokens   int // 0: RepetitionContextTokens
	FrequencyContextTokens  int // 0: RepetitionContextTokens

	XTC XTC
	DRY DRY

	// Custom are the caller's own functions. They cannot be sent to another process.
	Custom Custom `json:"-"`

	// LogitBias is added to the logits, by token id. Ids beyond the vocabulary have no effect.
	LogitBias map[int32]float32
	Seed      *uint64 // nil: a random seed

	// Logprobs selects the logprobs to report. -1: none, which saves a pass over the row; 0: only
	// the chosen token's; n > 0: also those of the n most likely tokens.
	Logprobs int
}

// DefaultContextTokens is mlx-lm's window for penalties.
const DefaultContextTokens = 20

// MaxLogprobs is the maximum number of alternatives reported for a token.
const MaxLogprobs = 20

// MaxContextTokens is the most tokens that a penalty counts. It bounds the memory of a request.
const MaxContextTokens = 1 << 20

// Validate checks the range of every parameter. The error gives the name of the first parameter out
// of range, its value and the allowed range.
func (p Params) Validate() error {
	inf := math.Inf(1)
	for _, c := range []struct {
		name     string
		value    float64
		from, to float64
	}{
		{"temperature", float64(p.Temperature), 0, inf},
		{"top_p", float64(p.TopP), 0, 1},
		{"min_p", float64(p.MinP), 0, 1},
		{"top_k", float64(p.TopK), -1, inf},
		{"repetition_penalty", float64(p.RepetitionPenalty), 0, 100},
		{"repetition_context_size", float64(p.RepetitionContextTokens), 0, MaxContextTokens},
		{"presence_context_size", float64(p.PresenceContextTokens), 0, MaxContextTokens},
		{"frequency_context_size", float64(p.FrequencyContextTokens), 0, MaxContextTokens},
		{"xtc_probability", float64(p.XTC.Probability), 0, 1},
		{"xtc_threshold", float64(p.XTC.Threshold), 0, 1},
		{"dry_multiplier", float64(p.DRY.Multiplier), 0, 100},
		{"dry_base", float64(p.DRY.Base), 0, 100},
		{"dry_allowed_length", float64(p.DRY.AllowedTokens), 0, MaxContextTokens},
		{"dry_penalty_last_n", float64(p.DRY.ContextTokens), 0, MaxContextTokens},
		{"presence_penalty", float64(p.PresencePenalty), -2, 2},
		{"frequency_penalty", float64(p.FrequencyPenalty), -2, 2},
		{"top_logprobs", float64(p.Logprobs), -1, MaxLogprobs},
	} {
		if err := inRange(c.name, c.value, c.from, c.to); err != nil {
			return err
		}
	}
	if p.RepetitionPenalty > 0 && p.RepetitionPenalty < 0.01 { // would overflow logits
		return fmt.Errorf("repetition_penalty: got %v, it must be 0 (off) or between 0.01 and 100",
			p.RepetitionPenalty)
	}
	for id, bias := range p.LogitBias {
		if id < 0 {
			return fmt.Errorf("logit_bias: got token id %d, it must not be negative", id)
		}
		if err := inRange(fmt.Sprintf("logit_bias of token %d", id), float64(bias), -100,
			100); err != nil {
			return err
		}
	}
	return nil
}

func inRange(name string, value, from, to float64) error {
	if value >= from && value <= to && !math.IsInf(value, 0) { // false for NaN
		return nil
	}
	got := strconv.FormatFloat(value, 'g', -1, 32)
	if math.IsInf(to, 1) {
		return fmt.Errorf("%s: got %s, it must be a number of at least %v", name, got, from)
	}
	return fmt.Errorf("%s: got %s, it must be between %v and %v", name, got, from, to)
}

// penaltyWindow is a window of recent tokens and the penalties that count them.
type penaltyWindow struct {
	window
	penalties sampling.Penalties
}

// add adds penalties of which w has none.
func (w *penaltyWindow) add(p sampling.Penalties) {
	w.penalties.Repetition = cmp.Or(w.penalties.Repetition, p.Repetition)
	w.penalties.Presence = cmp.Or(w.penalties.Presence, p.Presence)
	w.penalties.Frequency = cmp.Or(w.penalties.Frequency, p.Frequency)
}

// windows returns the windows of the penalties that are on, in the order in which they apply. A
// window has all penalties of its size.
func (p *Params) windows() (list []penaltyWindow) {
	all := cmp.Or(p.RepetitionContextTokens, DefaultContextTokens)
	for _, one := range []struct {
		penalties sampling.Penalties
		tokens    int
	}{
		{sampling.Penalties{Repetition: p.RepetitionPenalty}, all},
		{sampling.Penalties{Presence: p.PresencePenalty}, cmp.Or(p.PresenceContextTokens, all)},
		{sampling.Penalties{Frequency: p.FrequencyPenalty}, cmp.Or(p.FrequencyContextTokens, all)},
	} {
		if !one.penalties.Any() {
			continue
		}
		if last := len(list) - 1; last >= 0 && len(list[last].ring) == one.tokens {
			list[last].add(one.penalties)
			continue
		}
		list = append(list, penaltyWindow{newWindow(one.tokens), one.penalties})
	}
	return list
}
