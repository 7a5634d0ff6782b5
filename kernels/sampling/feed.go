package sampling

// The input tokens of a pass. A host that is ahead of its device does not know the tokens that the
// previous pass chooses, so the device copies them.

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"headroom/kernels"
	"headroom/kernels/cpu"
)

// Feed computes out[m] = Tokens[m], or the token of Chosen if Tokens[m] is a placeholder (see
// Placeholder).
//
// Tokens has M entries. Chosen holds the tokens of the previous pass, int32 [N, 1]. It may be none
// if there are no placeholders. Out is int32 [M, 1].
type Feed struct {
	Tokens []int32
	Chosen kernels.Tensor
	Out    kernels.Tensor
}

// Placeholder returns a placeholder for the token that row r of the previous pass chooses.
func Placeholder(r int) int32 { return -1 - int32(r) }

// PlaceholderRow returns the row of the previous pass that a placeholder refers to.
func PlaceholderRow(placeholder int32) int32 { return -1 - placeholder }

// Name implements kernels.Op.
func (o *Feed) Name() string { return "feed" }

// Check implements kernels.Op.
func (o *Feed) Check() error {
	err := kernels.CheckShape("out", o.Out, kernels.I32, len(o.Tokens), 1)
	if !o.Chosen.IsNone() {
		err = errors.Join(err, kernels.CheckShape("chosen", o.Chosen, kernels.I32, -1, 1))
	}
	for i, t := range o.Tokens {
		if t < 0 && int(PlaceholderRow(t)) >= o.Chosen.Rows {
			err = errors.Join(err, fmt.Errorf(
				"token %d: got a placeholder for row %d of chosen, expected one of [0, %d)", i,
				PlaceholderRow(t), o.Chosen.Rows))
		}
	}
	return err
}

// Reference implements kernels.Op.
func (o *Feed) Reference() {
	out := o.Out.Int32s()
	var chosen []int32
	if !o.Chosen.IsNone() {
		chosen = o.Chosen.Int32s()
	}
	for m, t := range o.Tokens {
		if t < 0 {
			t = chosen[int(PlaceholderRow(t))*o.Chosen.Stride]
		}
		out[m*o.Out.Stride] = t
	}
}

// CPU implements kernels.Op on one thread, because it copies only a few integers.
func (o *Feed) CPU(*cpu.Context) { o.Reference() }

func feedCases() []kernels.Case {
	var cases []kernels.Case
	for _, m := range []int{1, 7, 700} {
		cases = append(cases, kernels.Case{
			Name: fmt.Sprintf("feed_m%d", m),
			New: func(d kernels.Device, r *rand.Rand) (kernels.Op, []kernels.Tensor) {
				o := &Feed{Tokens: make([]int32, m),
					Chosen: kernels.NewTensor(d, kernels.I32, 5, 3).Columns(1, 2),
					Out:    kernels.NewTensor(d, kernels.I32, m, 2).Columns(1, 2)}
				for i := range o.Chosen.Int32s() {
					o.Chosen.Int32s()[i] = int32(r.IntN(1000)) - 100
				}
				for i := range o.Tokens {
					if o.Tokens[i] = int32(r.IntN(1 << 20)); i%3 == 0 {
						o.Tokens[i] = Placeholder(r.IntN(5))
					}
				}
				return o, []kernels.Tensor{o.Out}
			},
		})
	}
	return cases
}
