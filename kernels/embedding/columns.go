package embedding

import (
	"errors"
	"math/rand/v2"

	"headroom/kernels"
	"headroom/kernels/cpu"
)

// Columns computes out[m][j] = x[m][Order[j]]. It brings an activation into the order in which a
// weight has its inputs (kernels.Weight.Order).
//
// X and Out are float32 [M, K] and do not overlap. Order is contiguous int32 [1, K], of which each
// is in [0, K).
type Columns struct {
	X, Order, Out kernels.Tensor
}

// Name implements kernels.Op.
func (o *Columns) Name() string { return "columns" }

// Check implements kernels.Op.
func (o *Columns) Check() error {
	return errors.Join(
		kernels.CheckShape("x", o.X, kernels.F32, -1, -1),
		kernels.CheckShape("order", o.Order, kernels.I32, 1, o.X.Cols),
		kernels.CheckShape("out", o.Out, kernels.F32, o.X.Rows, o.X.Cols))
}

// Reference implements kernels.Op.
func (o *Columns) Reference() { o.rows(0, o.X.Rows) }

func (o *Columns) rows(from, to int) {
	order := o.Order.Int32s()
	for r := from; r < to; r++ {
		x, out := o.X.Row(r), o.Out.Row(r)[:len(order)]
		for j, i := range order {
			out[j] = x[i]
		}
	}
}

// CPU implements kernels.Op. Rows are independent.
func (o *Columns) CPU(c *cpu.Context) {
	c.Parallel(o, 0, o.X.Rows, 1+32768/max(o.X.Cols, 1))
}

// CPURange implements cpu.Task.
func (o *Columns) CPURange(_ *cpu.Context, _, _, from, to int) { o.rows(from, to) }

func columnsCases() []kernels.Case {
	var cases []kernels.Case
	for _, c := range []struct {
		name string
		m, k int
	}{{"columns_f32_m1_k96", 1, 96}, {"columns_f32_m37_k1000", 37, 1000}} {
		cases = append(cases, kernels.Case{
			Name:  c.name,
			Bytes: int64(8 * c.m * c.k),
			New: func(d kernels.Device, r *rand.Rand) (kernels.Op, []kernels.Tensor) {
				o := &Columns{
					X:     kernels.RandomTensor(d, r, c.m, c.k+7, 1).Columns(5, c.k+5),
					Order: kernels.NewTensor(d, kernels.I32, 1, c.k),
					Out:   kernels.NewTensor(d, kernels.F32, c.m, c.k+3).Columns(1, c.k+1),
				}
				for i, from := range r.Perm(c.k) {
					o.Order.Int32s()[i] = int32(from)
				}
				return o, []kernels.Tensor{o.Out}
			},
		})
	}
	return cases
}
