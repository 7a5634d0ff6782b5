package sampling

// The most likely token of a row, and its probability. A drafter needs nothing else of its logits,
// so the host does not read these.

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"unsafe"

	"headroom/kernels"
	"headroom/kernels/cpu"
)

// Likeliest sets out[m] to the most likely token of logits[m], the first of equal ones, and to the
// mass of the row: the sum of exp(logit - largest logit) in units of 1/UnitWeight. The mass is an
// integer, so it does not depend on the order of the sum. In place of a token there may be a fault
// (see Fault), with a mass of 0.
//
// Logits are float32 [M, V] with V at most 2^23, and -Inf for masked tokens. Out is int32
// [M, LikeliestCols], aligned to 8 bytes: the low and the high half of the mass, the token, and 0.
type Likeliest struct {
	Logits kernels.Tensor
	Out    kernels.Tensor
}

// LikeliestCols is the number of columns of Likeliest.Out.
const LikeliestCols = 4

// MostLikely returns the token of a row of Likeliest.Out and its probability. A row without a valid
// token has token 0 with probability 0.
func MostLikely(row []int32) (token int32, probability float64) {
	mass := uint64(uint32(row[0])) | uint64(uint32(row[1]))<<32
	if row[2] < 0 || mass == 0 {
		return 0, 0
	}
	return row[2], UnitWeight / float64(mass)
}

// Name implements kernels.Op.
func (o *Likeliest) Name() string { return "likeliest" }

// Check implements kernels.Op.
func (o *Likeliest) Check() error {
	err := errors.Join(
		kernels.CheckShape("logits", o.Logits, kernels.F32, -1, -1),
		kernels.CheckShape("out", o.Out, kernels.I32, o.Logits.Rows, LikeliestCols))
	if o.Logits.Cols > maxVocab {
		err = errors.Join(err, fmt.Errorf("logits: got %d columns, expected at most %d",
			o.Logits.Cols, maxVocab))
	}
	if o.Out.Offset%8 != 0 || o.Out.Stride%2 != 0 {
		err = errors.Join(err, fmt.Errorf(
			"out: got %s at byte %d with stride %d, expected rows at multiples of 8 bytes", o.Out,
			o.Out.Offset, o.Out.Stride))
	}
	return err
}

// Reference implements kernels.Op.
func (o *Likeliest) Reference() {
	for r := range o.Logits.Rows {
		logits, mass := o.Logits.Row(r), uint64(0)
		token := bySorting(logits, Settings{})
		for i := 0; i < len(logits) && token >= 0; i++ {
			mass += weight(logits[token]-logits[i], log2e)
		}
		copy(o.row(r), []int32{int32(uint32(mass)), int32(uint32(mass >> 32)), token, 0})
	}
}

func (o *Likeliest) row(r int) []int32 { return o.Out.RowRange(r, r+1).Int32s() }

// Phases on the CPU: first the token of each row, then the mass of each block of a row.
const (
	findTokens = iota
	addMasses
)

// blocks returns the number of blocks of a row. Threads share them.
func (o *Likeliest) blocks() int { return (o.Logits.Cols + partTokens - 1) / partTokens }

// CPU implements kernels.Op.
func (o *Likeliest) CPU(c *cpu.Context) {
	c.Parallel(o, findTokens, o.Logits.Rows, 1+16*partTokens/max(o.Logits.Cols, 1))
	c.Parallel(o, addMasses, o.Logits.Rows*o.blocks(), 1)
}

// CPURange implements cpu.Task.
func (o *Likeliest) CPURange(_ *cpu.Context, phase, _, from, to int) {
	for u := from; u < to; u++ {
		if phase == findTokens {
			out := o.row(u)
			out[0], out[1], out[2], out[3] = 0, 0, argmax(o.Logits.Row(u)), 0
			continue
		}
		row := u / o.blocks()
		out, logits := o.row(row), o.Logits.Row(row)
		if out[2] < 0 {
			continue
		}
		peak, sum, at := logits[out[2]], uint64(0), u%o.blocks()*partTokens
		for _, x := range logits[at:min(at+partTokens, len(logits))] {
			sum += weight(peak-x, log2e)
		}
		// The two halves are one word: all machines that Headroom runs on are little-endian.
		atomic.AddUint64((*uint64)(unsafe.Pointer(&out[0])), sum)
	}
}

func likeliestCases() []kernels.Case {
	var cases []kernels.Case
	for _, c := range []struct {
		rows, vocab int
		scale       float64
		bytes       int64
	}{{1, 1, 1, 0}, {7, 33, 2, 0}, {5, 4097, 3, 0}, {3, 9000, 0.1, 0},
		{1, 248320, 3, 4 * 248320}} {
		cases = append(cases, kernels.Case{
			Name:  fmt.Sprintf("likeliest_m%d_v%d_scale_%g", c.rows, c.vocab, c.scale),
			Bytes: c.bytes,
			New: func(d kernels.Device, r *rand.Rand) (kernels.Op, []kernels.Tensor) {
				o := &Likeliest{
					Logits: kernels.RandomTensor(d, r, c.rows, c.vocab+3, c.scale).Columns(1,
						c.vocab+1),
					Out: kernels.NewTensor(d, kernels.I32, c.rows, LikeliestCols+2).Columns(2,
						LikeliestCols+2)}
				for m := range c.rows {
					x := o.Logits.Row(m)
					for i := range x {
						switch {
						case m == 1: // none
							x[i] = float32(math.Inf(-1))
						case m == 2: // many equal ones
							x[i] = float32(math.Round(float64(x[i])))
						case m > 2 && r.IntN(10) == 0:
							x[i] = float32(math.Inf(-1))
						}
					}
					if m == 4 {
						x[len(x)-2] = float32(math.NaN())
					}
				}
				return o, []kernels.Tensor{o.Out}
			},
		})
	}
	return cases
}
