package recurrent

// How a state is kept. Every form is exact about one thing: what is kept after a token is what the
// next token sees, within a span and across spans, in the processor's registers as in memory. So a
// state can be copied, put down and taken up at any token, and a sequence has the same bits however
// it is cut; rounding is part of what is computed, not of how it is stored.
//
// A state tensor has a row per slot. A slot holds rows of values, [rows, cols]:
//
//	float32   the values
//	bfloat16  the values, rounded to nearest even
//	int8      float32 scales [rows, groups], then codes [rows, cols], then zeros up to a multiple of 4 bytes: value = code * scale
//
// where a group of values, whose largest magnitude is amax, has scale = amax / 127 and code =
// round(value * (127 / amax)). A group is a value row of the gated delta rule, and convGroup
// channels of a kept row of the convolution: units of work then share no scale, and one loud
// channel costs its neighbours alone. A slot of zeros is a state of zeros. kept.h has the same in
// C.

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"headroom/kernels"
)

// convGroup is the channels that share a scale. The same number stands in conv.c.
const convGroup = 64

const (
	largestCode = 127
	leastAmax   = 1e-30 // keeps the scale of zeros, and its reciprocal, finite
)

// ConvStateCols is the columns of a Conv's State in dtype, F32, BF16 or I8, for a convolution of
// taps taps over channels channels.
func ConvStateCols(dtype kernels.DType, taps, channels int) int {
	return layout{dtype, taps - 1, channels, convGroup}.stateCols()
}

// GatedDeltaStateCols is the columns of a GatedDelta's State in dtype, F32, BF16 or I8, for rows =
// Hv*Dv value rows of dk values.
func GatedDeltaStateCols(dtype kernels.DType, rows, dk int) int {
	return layout{dtype, rows, dk, dk}.stateCols()
}

// layout is how a slot is laid out: rows of cols values, a scale per group of a row.
type layout struct {
	dtype             kernels.DType
	rows, cols, group int
}

func (l layout) groups() int { return (l.cols + l.group - 1) / l.group }

func (l layout) stateCols() int {
	if l.dtype == kernels.I8 {
		return (l.rows*(4*l.groups()+l.cols) + 3) &^ 3
	}
	return l.rows * l.cols
}

// check returns an error unless state is a tensor of such slots that C code and rows of float32
// scales can trust, spans lie inside rows rows, and every span has a slot of its own.
func (l layout) check(spans []kernels.Span, rows int, state kernels.Tensor) error {
	dtype := state.DType
	if dtype != kernels.F32 && dtype != kernels.BF16 && dtype != kernels.I8 {
		return fmt.Errorf("state: got %s, expected float32, bfloat16 or int8", state)
	}
	err := errors.Join(kernels.CheckSpans(spans, rows),
		kernels.CheckShape("state", state, dtype, -1, l.stateCols()))
	if dtype == kernels.I8 && (state.Offset%4 != 0 || state.Stride%4 != 0) {
		err = errors.Join(err, fmt.Errorf(
			"state: %s starts at byte %d with stride %d, expected multiples of 4", state,
			state.Offset, state.Stride))
	}
	for i, s := range spans {
		if s.Slot < 0 || int(s.Slot) >= state.Rows {
			err = errors.Join(err, fmt.Errorf("span %d: slot %d, expected one of %d", i, s.Slot,
				state.Rows))
		}
		if slices.ContainsFunc(spans[:i], func(o kernels.Span) bool { return o.Slot == s.Slot }) {
			err = errors.Join(err, fmt.Errorf(
				"span %d: slot %d belongs to an earlier span too, expected one span per slot", i,
				s.Slot))
		}
	}
	return err
}

// slot is the bytes of a slot of state.
func slot(state kernels.Tensor, i int32) []byte { return state.RowRange(int(i), int(i)+1).Bytes() }

// at is where value col of row lies in a slot.
func (l layout) at(row, col int) int {
	if l.dtype == kernels.I8 {
		return 4*l.rows*l.groups() + row*l.cols + col
	}
	return l.dtype.Size() * (row*l.cols + col)
}

// scaleAt is where the scale of value col of row lies in a slot of int8.
func (l layout) scaleAt(row, col int) int { return 4 * (row*l.groups() + col/l.group) }

// clear makes n values of row from col on zero.
func (l layout) clear(slot []byte, row, col, n int) {
	clear(slot[l.at(row, col):l.at(row, col+n)])
	if l.dtype == kernels.I8 && n > 0 {
		clear(slot[l.scaleAt(row, col) : l.scaleAt(row, col+n-1)+4])
	}
}

// move copies n values of row from, from col on, to row to, as they are kept: rounding a kept value
// anew could change it.
func (l layout) move(slot []byte, to, from, col, n int) {
	copy(slot[l.at(to, col):], slot[l.at(from, col):l.at(from, col+n)])
	if l.dtype == kernels.I8 && n > 0 {
		copy(slot[l.scaleAt(to, col):], slot[l.scaleAt(from, col):l.scaleAt(from, col+n-1)+4])
	}
}

// load reads len(dst) values of row from col on, which begins a group.
func load[F float32 | float64](l layout, dst []F, slot []byte, row, col int) {
	b := slot[l.at(row, col):]
	switch l.dtype {
	case kernels.BF16:
		for i := range dst {
			dst[i] = F(math.Float32frombits(uint32(binary.LittleEndian.Uint16(b[2*i:])) << 16))
		}
	case kernels.I8:
		for from := 0; from < len(dst); from += l.group {
			scale := math.Float32frombits(
				binary.LittleEndian.Uint32(slot[l.scaleAt(row, col+from):]))
			for i := from; i < min(from+l.group, len(dst)); i++ {
				dst[i] = F(float32(int8(b[i])) * scale)
			}
		}
	default:
		for i := range dst {
			dst[i] = F(math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:])))
		}
	}
}

// store writes src as values of row from col on, which begins a group.
func store[F float32 | float64](l layout, slot []byte, row, col int, src []F) {
	b := slot[l.at(row, col):]
	switch l.dtype {
	case kernels.BF16:
		for i, x := range src {
			binary.LittleEndian.PutUint16(b[2*i:],
				uint16(math.Float32bits(roundBF16(float32(x)))>>16))
		}
	case kernels.I8:
		for from := 0; from < len(src); from += l.group {
			group := src[from:min(from+l.group, len(src))]
			scale, inverse := scaleOf(group)
			binary.LittleEndian.PutUint32(slot[l.scaleAt(row, col+from):], math.Float32bits(scale))
			for i, x := range group {
				b[from+i] = byte(code(float32(x), inverse))
			}
		}
	default:
		for i, x := range src {
			binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(float32(x)))
		}
	}
}

// round sets dst to what store and load would make of src.
func (l layout) round(dst, src []float32) {
	switch l.dtype {
	case kernels.BF16:
		for i, x := range src {
			dst[i] = roundBF16(x)
		}
	case kernels.I8:
		for from := 0; from < len(src); from += l.group {
			group := src[from:min(from+l.group, len(src))]
			scale, inverse := scaleOf(group)
			for i, x := range group {
				dst[from+i] = float32(code(x, inverse)) * scale
			}
		}
	default:
		copy(dst, src)
	}
}

// code is the code of a value whose group has the factor inverse.
func code(x, inverse float32) int8 { return int8(math.RoundToEven(float64(x * inverse))) }

// roundBF16 rounds to bfloat16, to nearest even. A NaN whose low bits are all set, which no
// arithmetic makes, would not stay one.
func roundBF16(x float32) float32 {
	b := math.Float32bits(x)
	return math.Float32frombits((b + 0x7fff + b>>16&1) &^ 0xffff)
}

// scaleOf is the scale of a group and the factor from values to codes.
func scaleOf[F float32 | float64](group []F) (scale, inverse float32) {
	amax := float32(leastAmax)
	for _, x := range group {
		if x := float32(math.Abs(float64(x))); x > amax {
			amax = x
		}
	}
	return amax / largestCode, largestCode / amax
}
