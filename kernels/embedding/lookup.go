package embedding

// Rows of the embedding matrix by token id, dequantized from the checkpoint's format.

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"headroom/kernels"
	"headroom/kernels/cpu"
)

// Lookup computes out[m] = Scale * W[Tokens[m]], dequantized. A token outside the vocabulary gives
// a row of NaN, because tokens may come from sampling on the device, where Check cannot see them.
//
// Tokens is int32 [M, 1], W a single matrix [V, K] of any format, and Out float32 [M, K].
type Lookup struct {
	Tokens kernels.Tensor
	W      *kernels.Weight
	Out    kernels.Tensor
	Scale  float32 // 0 means 1
}

// Name implements kernels.Op.
func (o *Lookup) Name() string { return "lookup" }

// Check implements kernels.Op.
func (o *Lookup) Check() error {
	if o.W == nil {
		return errors.New("weight: got none")
	}
	if err := o.W.Check(); err != nil {
		return err
	}
	if !o.W.Order.IsNone() {
		return errors.New("weight: got columns in another order, expected that of the embedding")
	}
	if o.W.Experts != 1 {
		return fmt.Errorf("weight: got %d matrices, expected one", o.W.Experts)
	}
	return errors.Join(
		kernels.CheckShape("tokens", o.Tokens, kernels.I32, -1, 1),
		kernels.CheckShape("out", o.Out, kernels.F32, o.Tokens.Rows, o.W.K))
}

// Reference implements kernels.Op.
func (o *Lookup) Reference() { o.rows(0, o.Tokens.Rows) }

// rows computes rows [from, to). It is the specification, and builds without cgo run it.
func (o *Lookup) rows(from, to int) {
	for r := from; r < to; r++ {
		out := o.Out.Row(r)
		if token := o.token(r); token >= 0 {
			o.W.DequantizeRow(out, token)
			for i := range out {
				out[i] *= o.scale()
			}
			continue
		}
		for i := range out {
			out[i] = float32(math.NaN())
		}
	}
}

// token returns the token of row r, or -1 if it is outside the vocabulary.
func (o *Lookup) token(r int) int {
	if t := o.Tokens.RowRange(r, r+1).Int32s()[0]; int(t) < o.W.N {
		return max(int(t), -1)
	}
	return -1
}

func (o *Lookup) scale() float32 {
	if o.Scale == 0 {
		return 1
	}
	return o.Scale
}

// CPU implements kernels.Op. Rows are independent.
func (o *Lookup) CPU(c *cpu.Context) {
	c.Parallel(o, 0, o.Tokens.Rows, 1+32768/o.W.K)
}

// CPURange implements cpu.Task.
func (o *Lookup) CPURange(c *cpu.Context, _, _, from, to int) {
	if c.ISA == cpu.Generic {
		o.rows(from, to)
		return
	}
	for r := from; r < to; r++ {
		if token := o.token(r); token >= 0 {
			o.native(c.ISA, r, token)
		} else {
			o.rows(r, r+1)
		}
	}
}

func lookupCases() []kernels.Case {
	var cases []kernels.Case
	add := func(m, h, bits, group int, dtype kernels.DType) {
		format := (&kernels.Weight{Bits: bits, Group: group,
			Data: kernels.Tensor{DType: dtype}}).Format() + "_" + dtype.String()
		if mode := kernels.ModeOf(bits, dtype); bits > 0 && mode != kernels.Affine {
			format = mode.String()
		}
		cases = append(cases, kernels.Case{
			Name:   fmt.Sprintf("lookup_%s_m%d_h%d", format, m, h),
			RelTol: 1.8e-7,
			Why: "one rounding of code*scale + bias, which the scalar code rounds to float64 " +
				"first, and one of the product with Scale",
			Bytes: int64(4 * m * h),
			New: func(d kernels.Device, r *rand.Rand) (kernels.Op, []kernels.Tensor) {
				o := &Lookup{
					Tokens: kernels.NewTensor(d, kernels.I32, m, 1),
					W:      kernels.RandomWeight(d, r, 1, 50, h, bits, group, dtype, 1),
					Out:    kernels.NewTensor(d, kernels.F32, m, h+5).Columns(2, h+2),
					Scale:  float32(m%4) * 33.75,
				}
				for i := range o.Tokens.Int32s() {
					o.Tokens.Int32s()[i] = int32(r.IntN(50))
				}
				// the last row: reading past it would leave the matrix
				o.Tokens.Int32s()[0] = 49
				return o, []kernels.Tensor{o.Out}
			},
		})
	}
	add(3, 37, 0, 0, kernels.F32)
	add(1, 101, 0, 0, kernels.F16)
	add(70, 1024, 0, 0, kernels.BF16)
	for i, bits := range []int{2, 3, 4, 5, 6, 8} {
		for j, group := range []int{32, 64, 128} {
			dtype := []kernels.DType{kernels.F32, kernels.F16, kernels.BF16}[(i+j)%3]
			add(1+2*i, 128*(1+j), bits, group, dtype)
		}
		add(2, 96, bits, 32, kernels.BF16)
	}
	add(3, 544, 4, 32, kernels.U8)
	add(4, 64, 4, 32, kernels.U8)
	add(3, 544, 8, 32, kernels.U8)
	add(4, 96, 8, 32, kernels.U8)
	add(3, 544, 4, 16, kernels.E4M3)
	add(4, 64, 4, 16, kernels.E4M3)
	add(3, 544, 8, 128, kernels.E4M3)
	add(4, 96, 8, 96, kernels.E4M3)
	return cases
}
