package recurrent

// The storage types of a recurrent state. After every token the state is rounded to its storage
// type, even while it stays in registers. So a state can be saved and restored at any token, and a
// sequence has the same bits however it is split: rounding is part of the computation.
//
// A state tensor has a row per slot. A slot holds values [rows, cols]:
//
//	float32   the values
//	bfloat16  the values, rounded to nearest even
//	int8      float32 scales [rows, groups], codes [rows, cols], zeros up to a multiple of 4 bytes
//
// An int8 value is code * scale. A group of values with the largest magnitude amax has the scale
// amax / 127, and code = round(value * (127 / amax)). A group is a value row of the gated delta
// rule, or convGroup channels of a row of the convolution. So units of work share no scale, and one
// channel with large values affects only its group. A slot of zero bytes is a state of zeros.
// state.h does the same in C.

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"headroom/kernels"
)

// convGroup is the number of channels that share a scale. conv.c repeats it.
const convGroup = 64

const (
	largestCode = 127
	leastAmax   = 1e-30 // keeps the reciprocal of the scale of zeros finite
)

// ConvStateCols returns the number of columns of a Conv's State for taps and channels. dtype is
// F32, BF16 or I8.
func ConvStateCols(dtype kernels.DType, taps, channels int) int {
	return stateLayout{dtype, taps - 1, channels, convGroup}.stateCols()
}

// StateCols returns the number of columns of a GatedDelta's State for rows = Hv*Dv value
// rows of cols = Dk values, and of an SSM's for rows = Heads*Dim of cols = N values. dtype is F32,
// BF16 or I8.
func StateCols(dtype kernels.DType, rows, cols int) int {
	return stateLayout{dtype, rows, cols, cols}.stateCols()
}

// stateLayout is the layout of a slot: rows that have cols values each, and for int8 a scale per
// group of values.
type stateLayout struct {
	dtype             kernels.DType
	rows, cols, group int
}

func (l stateLayout) groups() int { return (l.cols + l.group - 1) / l.group }

func (l stateLayout) stateCols() int {
	if l.dtype == kernels.I8 {
		return (l.rows*(4*l.groups()+l.cols) + 3) &^ 3
	}
	return l.rows * l.cols
}

// check returns an error unless state consists of aligned slots of this layout, the spans are
// within a batch with the given number of rows, and every span has a different slot.
func (l stateLayout) check(spans []kernels.Span, rows int, state kernels.Tensor) error {
	dtype := state.DType
	if dtype != kernels.F32 && dtype != kernels.BF16 && dtype != kernels.I8 {
		return fmt.Errorf("state: got %s, expected float32, bfloat16 or int8", state)
	}
	err := errors.Join(kernels.CheckSpans(spans, rows),
		kernels.CheckShape("state", state, dtype, -1, l.stateCols()))
	if dtype == kernels.I8 && (state.Offset%4 != 0 || state.Stride%4 != 0) {
		err = errors.Join(err, fmt.Errorf(
			"state: got %s at byte %d with stride %d, expected multiples of 4", state,
			state.Offset, state.Stride))
	}
	for i, s := range spans {
		if s.Slot < 0 || int(s.Slot) >= state.Rows {
			err = errors.Join(err, fmt.Errorf("span %d: got slot %d, expected one of [0, %d)", i,
				s.Slot, state.Rows))
		}
		if slices.ContainsFunc(spans[:i], func(o kernels.Span) bool { return o.Slot == s.Slot }) {
			err = errors.Join(err, fmt.Errorf(
				"span %d: got slot %d of an earlier span, expected a different slot for each span",
				i, s.Slot))
		}
	}
	return err
}

// slot returns the bytes of slot i of state.
func slot(state kernels.Tensor, i int32) []byte { return state.RowRange(int(i), int(i)+1).Bytes() }

// at returns the byte offset of value col of row in a slot.
func (l stateLayout) at(row, col int) int {
	if l.dtype == kernels.I8 {
		return 4*l.rows*l.groups() + row*l.cols + col
	}
	return l.dtype.Size() * (row*l.cols + col)
}

// scaleAt returns the byte offset of the scale of value col of row in an int8 slot.
func (l stateLayout) scaleAt(row, col int) int { return 4 * (row*l.groups() + col/l.group) }

// clear sets columns [col, col+n) of row to zero.
func (l stateLayout) clear(slot []byte, row, col, n int) {
	clear(slot[l.at(row, col):l.at(row, col+n)])
	if l.dtype == kernels.I8 && n > 0 {
		clear(slot[l.scaleAt(row, col) : l.scaleAt(row, col+n-1)+4])
	}
}

// move copies columns [col, col+n) of one row of the slot to another row. It copies codes and
// scales, because rounding a rounded value again could change it.
func (l stateLayout) move(slot []byte, to, from, col, n int) {
	copy(slot[l.at(to, col):], slot[l.at(from, col):l.at(from, col+n)])
	if l.dtype == kernels.I8 && n > 0 {
		copy(slot[l.scaleAt(to, col):], slot[l.scaleAt(from, col):l.scaleAt(from, col+n-1)+4])
	}
}

// load reads the columns of row that start at col into dst. col must be the start of a group.
func load[F float32 | float64](l stateLayout, dst []F, slot []byte, row, col int) {
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

// store rounds src and writes it to row, starting at col. col must be the start of a group.
func store[F float32 | float64](l stateLayout, slot []byte, row, col int, src []F) {
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

// round sets dst to src rounded to the storage type, as after store and load.
func (l stateLayout) round(dst, src []float32) {
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

// code returns the code of x. inverse is the factor of its group from scaleOf.
func code(x, inverse float32) int8 { return int8(math.RoundToEven(float64(x * inverse))) }

// roundBF16 rounds to bfloat16, to nearest even. A NaN with all low bits set would not stay NaN,
// but arithmetic never produces one.
func roundBF16(x float32) float32 {
	b := math.Float32bits(x)
	return math.Float32frombits((b + 0x7fff + b>>16&1) &^ 0xffff)
}

// scaleOf returns the scale of a group and the factor from values to codes.
func scaleOf[F float32 | float64](group []F) (scale, inverse float32) {
	amax := float32(leastAmax)
	for _, x := range group {
		if x := float32(math.Abs(float64(x))); x > amax {
			amax = x
		}
	}
	return amax / largestCode, largestCode / amax
}
