package sampling

// Changes to logits before a token is chosen: biases, and penalties on recent tokens. The host
// prepares a pass while the previous pass runs, before it knows the token that the previous pass
// chooses. It names that token's row, and the device reads the token there.

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"headroom/kernels"
	"headroom/kernels/cpu"
)

// Penalties lower the logits of recent tokens. The zero value changes nothing.
type Penalties struct {
	// Repetition divides positive and multiplies negative logits. 0 and 1 mean off.
	Repetition float32
	Presence   float32 // subtracted once
	Frequency  float32 // subtracted as often as the token occurs
}

// Any reports whether p changes any logit.
func (p *Penalties) Any() bool {
	return p.Repetition != 0 && p.Repetition != 1 || p.Presence != 0 || p.Frequency != 0
}

// Apply returns the logit x after the penalties for a token that occurs count times.
func (p *Penalties) Apply(x float32, count int32) float32 {
	if r := p.Repetition; r != 0 && r != 1 {
		if x < 0 {
			x = float32(x * r)
		} else {
			x = float32(x / r)
		}
	}
	return float32(x-p.Presence) - float32(p.Frequency*float32(count))
}

// TokenCount is a token and the number of times it occurs.
type TokenCount struct{ Token, Count int32 }

// LogitBias is a value to add to a token's logit.
type LogitBias struct {
	Token int32
	Value float32
}

// Adjustment is the change to one row: biases first, then penalties.
type Adjustment struct {
	Biases []LogitBias // each token once
	Penalties
	Recent []TokenCount // each token once
	// Chosen is the row of Adjust.Chosen that holds one more recent token, or -1 for none.
	Chosen int32
}

// Adjust changes the logits of the biased and the recent tokens of each row. Tokens outside the
// vocabulary have no effect.
//
// Logits are float32 [M, V] and changed in place. Rows has M adjustments. Chosen holds the tokens
// of the previous pass, int32 [N, 1]. It may be none if no adjustment refers to it.
type Adjust struct {
	Logits kernels.Tensor
	Rows   []Adjustment
	Chosen kernels.Tensor
}

// Name implements kernels.Op.
func (o *Adjust) Name() string { return "adjust" }

// Check implements kernels.Op.
func (o *Adjust) Check() error {
	err := kernels.CheckShape("logits", o.Logits, kernels.F32, len(o.Rows), -1)
	if !o.Chosen.IsNone() {
		err = errors.Join(err, kernels.CheckShape("chosen", o.Chosen, kernels.I32, -1, 1))
	}
	for r := range o.Rows {
		if c := o.Rows[r].Chosen; c < -1 || int(c) >= o.Chosen.Rows {
			err = errors.Join(err, fmt.Errorf(
				"row %d: got row %d of chosen, expected one of [0, %d), or -1", r, c,
				o.Chosen.Rows))
		}
	}
	return err
}

// Reference implements kernels.Op.
func (o *Adjust) Reference() {
	for r := range o.Rows {
		h, logits, chosen := &o.Rows[r], o.Logits.Row(r), int32(-1)
		for _, b := range h.Biases {
			if b.Token >= 0 && int(b.Token) < len(logits) {
				logits[b.Token] += b.Value
			}
		}
		if h.Chosen >= 0 {
			chosen = o.Chosen.RowRange(int(h.Chosen), int(h.Chosen)+1).Int32s()[0]
		}
		known := false
		for _, t := range h.Recent {
			if t.Token == chosen {
				known = true
				t.Count++
			}
			h.at(logits, t)
		}
		if !known {
			h.at(logits, TokenCount{chosen, 1})
		}
	}
}

func (h *Adjustment) at(logits []float32, t TokenCount) {
	if t.Token >= 0 && int(t.Token) < len(logits) {
		logits[t.Token] = h.Apply(logits[t.Token], t.Count)
	}
}

// CPU implements kernels.Op on one thread, because few tokens change.
func (o *Adjust) CPU(*cpu.Context) { o.Reference() }

func adjustCases() []kernels.Case {
	var cases []kernels.Case
	for _, c := range []struct{ rows, vocab, recent, biased int }{{1, 5, 0, 0}, {3, 40, 7, 0},
		{3, 40, 7, 12}, {5, 300, 200, 150}, {9, 2000, 1, 1001}} {
		cases = append(cases, kernels.Case{
			Name: fmt.Sprintf("adjust_m%d_v%d_recent_%d_biased_%d", c.rows, c.vocab, c.recent,
				c.biased),
			New: func(d kernels.Device, r *rand.Rand) (kernels.Op, []kernels.Tensor) {
				o := &Adjust{Logits: kernels.RandomTensor(d, r, c.rows, c.vocab+2, 3).Columns(2,
					c.vocab+2), Chosen: kernels.NewTensor(d, kernels.I32, c.rows, 1)}
				for m := range c.rows {
					o.Chosen.Int32s()[m] = int32(r.IntN(c.vocab))
					h := Adjustment{Penalties: Penalties{1 + r.Float32(), r.Float32(), r.Float32()},
						Chosen: int32(c.rows-m) - 1}
					switch m {
					case 1:
						h.Chosen, h.Repetition = -1, 0
					case 2:
						o.Chosen.Int32s()[m] = FaultAt(3)
					}
					for i, t := range r.Perm(c.vocab + 5)[:c.recent] {
						h.Recent = append(h.Recent, TokenCount{int32(t) - 2, int32(1 + i%3)})
					}
					for _, t := range r.Perm(c.vocab + 5)[:c.biased] {
						h.Biases = append(h.Biases, LogitBias{int32(t) - 2, 200*r.Float32() - 100})
					}
					o.Rows = append(o.Rows, h)
				}
				return o, []kernels.Tensor{o.Logits}
			},
		})
	}
	return cases
}
