// Package safetensors reads and writes the safetensors format without copying.
//
// A file is
//
//	u64 little-endian n | n bytes of JSON header | data section
//
// and the header maps each tensor's name to its dtype, shape and data_offsets
// [from, to), counted from the start of the data section. Together the tensors
// cover the data section exactly: no overlap, no hole.
// Source: https://github.com/huggingface/safetensors#format
//
// [Open] maps a file read-only and trusts nothing in it: every length, offset and
// shape is checked against the file's size before it is used, so that a
// [Tensor] never points outside its mapping. [OpenDir] joins the files of one
// model. [Write] is the inverse of [Open].
//
// # Files that change while mapped
//
// The checks hold for the file as it was when it was opened. Deleting or
// replacing a mapped file (rename over it) is harmless: the mapping keeps the
// old contents. Truncating it in place is not: touching a page past the new end
// raises SIGBUS. Go code that called runtime/debug.SetPanicOnFault(true) on its
// goroutine gets a panic, which it can recover. C code and a GPU cannot recover:
// the process that runs the model ends. To change a model's files, write new
// ones and rename them over the old.
package safetensors

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"sort"
	"strings"
)

// DType is an element type, spelled as in the header.
type DType string

// The element types of the format that are a whole number of bytes.
const (
	Bool   DType = "BOOL"
	U8     DType = "U8"
	I8     DType = "I8"
	F8E4M3 DType = "F8_E4M3"
	F8E5M2 DType = "F8_E5M2"
	I16    DType = "I16"
	U16    DType = "U16"
	F16    DType = "F16"
	BF16   DType = "BF16"
	I32    DType = "I32"
	U32    DType = "U32"
	F32    DType = "F32"
	F64    DType = "F64"
	I64    DType = "I64"
	U64    DType = "U64"
)

var dtypeBytes = map[DType]int{
	Bool: 1, U8: 1, I8: 1, F8E4M3: 1, F8E5M2: 1,
	I16: 2, U16: 2, F16: 2, BF16: 2,
	I32: 4, U32: 4, F32: 4,
	F64: 8, I64: 8, U64: 8,
}

// Bytes returns the size of one element, or 0 for an unknown type.
func (d DType) Bytes() int { return dtypeBytes[d] }

// knownDTypes lists the types for error messages.
func knownDTypes() string {
	var names []string
	for d := range dtypeBytes {
		names = append(names, string(d))
	}
	sort.Strings(names)
	return strings.Join(names, ", ")
}

// Tensor is one named array, row-major and little-endian.
type Tensor struct {
	Name  string
	DType DType
	Shape []int // never negative; empty for a scalar. Shared: do not change.

	// From, To is the byte range [From, To) in the file's Mapping. Old writers
	// did not align the data, so From may be odd: check it before viewing Data
	// as wider elements.
	From, To int

	// Data is the range's bytes: read-only memory (writing to it faults), valid
	// until the file is closed.
	Data []byte
}

// Elements returns the product of the shape: 1 for a scalar.
func (t Tensor) Elements() int {
	n := 1
	for _, d := range t.Shape {
		n *= d
	}
	return n
}

// sizeBytes returns the size of a tensor of this type and shape.
func sizeBytes(d DType, shape []int) (int, error) {
	if d.Bytes() == 0 {
		return 0, fmt.Errorf("unknown dtype %q (known: %s)", string(d), knownDTypes())
	}
	size, err := product(d.Bytes(), shape)
	if err != nil {
		return 0, fmt.Errorf("shape %v of %s %w", shape, d, err)
	}
	return size, nil
}

// product returns unit times the dimensions of shape. The product of the
// dimensions that are not zero must fit an int, so that partial products cannot
// overflow later either.
func product(unit int, shape []int) (int, error) {
	size, zero := uint64(unit), false
	for _, n := range shape {
		if n < 0 {
			return 0, errors.New("has a negative dimension")
		}
		if n == 0 {
			zero = true
			continue
		}
		hi, lo := bits.Mul64(size, uint64(n))
		if hi != 0 || lo > math.MaxInt {
			return 0, errors.New("overflows the address space")
		}
		size = lo
	}
	if zero {
		return 0, nil
	}
	return int(size), nil
}
