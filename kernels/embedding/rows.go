package embedding

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"headroom/kernels"
	"headroom/kernels/cpu"
)

// Rows computes out[i] = x[Indices[i]], or with Targets out[Targets[i]] = x[Indices[i]]. It gathers
// the rows of a forward pass that need logits, and moves hidden states to and from slots. Both are
// known on the host, so Check verifies them.
//
// X is float32 [M, N]. Out is float32 [len(Indices), N], or [any, N] with Targets, which are as
// many as Indices and differ. Rows of Out that are no target are not written.
type Rows struct {
	X       kernels.Tensor
	Indices []int32
	Targets []int32 // nil: the first rows of Out
	Out     kernels.Tensor
}

// Name implements kernels.Op.
func (o *Rows) Name() string { return "rows" }

// Check implements kernels.Op.
func (o *Rows) Check() error {
	for i, r := range o.Indices {
		if r < 0 || int(r) >= o.X.Rows {
			return fmt.Errorf("index %d: got row %d, expected one of [0, %d) of x", i, r, o.X.Rows)
		}
	}
	rows := len(o.Indices)
	if o.Targets != nil {
		if len(o.Targets) != rows {
			return fmt.Errorf("got %d targets for %d indices", len(o.Targets), rows)
		}
		rows = -1
		for i, r := range o.Targets {
			if r < 0 || int(r) >= o.Out.Rows {
				return fmt.Errorf("target %d: got row %d, expected one of [0, %d) of out", i, r,
					o.Out.Rows)
			}
		}
	}
	return errors.Join(
		kernels.CheckShape("x", o.X, kernels.F32, -1, -1),
		kernels.CheckShape("out", o.Out, kernels.F32, rows, o.X.Cols))
}

// Reference implements kernels.Op.
func (o *Rows) Reference() {
	for i, r := range o.Indices {
		to := i
		if o.Targets != nil {
			to = int(o.Targets[i])
		}
		copy(o.Out.Row(to), o.X.Row(int(r)))
	}
}

// CPU implements kernels.Op. It uses one thread, because there are only a few rows.
func (o *Rows) CPU(*cpu.Context) { o.Reference() }

func rowsCases() []kernels.Case {
	return []kernels.Case{{
		Name:  "rows_f32_m7_n100",
		Bytes: 4 * 100 * 8,
		New: func(d kernels.Device, r *rand.Rand) (kernels.Op, []kernels.Tensor) {
			o := &Rows{
				X:       kernels.RandomTensor(d, r, 7, 120, 1).Columns(3, 103),
				Indices: []int32{6, 0, 3, 3},
				Out:     kernels.NewTensor(d, kernels.F32, 4, 100),
			}
			return o, []kernels.Tensor{o.Out}
		},
	}, {
		Name:  "rows_f32_m7_n100_targets",
		Bytes: 4 * 100 * 6,
		New: func(d kernels.Device, r *rand.Rand) (kernels.Op, []kernels.Tensor) {
			o := &Rows{
				X:       kernels.RandomTensor(d, r, 7, 120, 1).Columns(3, 103),
				Indices: []int32{6, 0, 3},
				Targets: []int32{1, 4, 0},
				Out:     kernels.RandomTensor(d, r, 5, 100, 1),
			}
			return o, []kernels.Tensor{o.Out}
		},
	}}
}
