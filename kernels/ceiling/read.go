package ceiling

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"headroom/kernels"
	"headroom/kernels/cpu"
)

// Read adds up each row of X: sums[r] = Σ X[r, :]. It is part of no model; it measures how fast all
// threads together read memory.
//
// X is float32 [M, N], contiguous, at a multiple of 16 bytes, with N a multiple of 64. Sums is
// float32 [M, 1]. Rows of a few hundred KB are long enough to be read as a stream.
type Read struct {
	X       kernels.Tensor
	Sums    kernels.Tensor
	Pattern int // index in Patterns, on the CPU; other devices have one pattern
}

// Name implements kernels.Op.
func (o *Read) Name() string { return "read" }

// Check implements kernels.Op.
func (o *Read) Check() error {
	err := errors.Join(kernels.CheckShape("x", o.X, kernels.F32, -1, -1),
		kernels.CheckShape("sums", o.Sums, kernels.F32, o.X.Rows, 1))
	switch {
	case err != nil:
		return err
	case o.X.Cols%64 != 0 || !o.X.Contiguous() || o.X.Offset%16 != 0:
		return fmt.Errorf("x: got %s with stride %d at byte %d, expected contiguous rows, "+
			"a multiple of 64 wide, at a multiple of 16 bytes", o.X, o.X.Stride, o.X.Offset)
	case o.Pattern < 0 || o.Pattern >= len(Patterns):
		return fmt.Errorf("pattern: got %d, expected an index below %d", o.Pattern, len(Patterns))
	}
	return nil
}

// Reference implements kernels.Op.
func (o *Read) Reference() { o.sumRows(0, o.X.Rows) }

func (o *Read) sumRows(from, to int) {
	for r := from; r < to; r++ {
		var sum float64
		for _, v := range o.X.Row(r) {
			sum += float64(v)
		}
		o.Sums.Row(r)[0] = float32(sum)
	}
}

// CPU implements kernels.Op.
func (o *Read) CPU(c *cpu.Context) { c.Parallel(o, 0, o.X.Rows, 1) }

// CPURange implements cpu.Task.
func (o *Read) CPURange(c *cpu.Context, _, _, from, to int) {
	if c.ISA == cpu.Generic {
		o.sumRows(from, to)
		return
	}
	o.native(c.ISA, from, to)
}

// TrafficBytes implements kernels.TrafficCounter.
func (o *Read) TrafficBytes() int64 { return int64(o.X.Rows * o.X.Cols * o.X.DType.Size()) }

func readCases() []kernels.Case {
	var cases []kernels.Case
	for _, s := range []struct{ rows, cols int }{{1, 64}, {3, 1024}, {128, 65536}} {
		cases = append(cases, kernels.Case{
			Name:   fmt.Sprintf("read_f32_m%d_n%d", s.rows, s.cols),
			AbsTol: 2e-6 * float64(s.cols),
			Why: "the sum of a row is added up in 64 float32 lanes, from terms of order one; " +
				"the reference adds in float64",
			Bytes: int64(4 * s.rows * s.cols),
			New: func(d kernels.Device, r *rand.Rand) (kernels.Op, []kernels.Tensor) {
				o := &Read{X: kernels.RandomTensor(d, r, s.rows, s.cols, 1),
					Sums: kernels.NewTensor(d, kernels.F32, s.rows, 1)}
				return o, []kernels.Tensor{o.Sums}
			},
		})
	}
	return cases
}
