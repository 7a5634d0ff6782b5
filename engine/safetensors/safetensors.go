// Package safetensors reads and writes files in the safetensors format. Reading does not copy data.
//
// A file consists of
//
//	u64 little-endian n | n bytes of JSON header | data section
//
// The header maps the name of each tensor to its dtype, its shape and its data_offsets [from, to),
// which are relative to the start of the data section. Together the tensors cover the data section
// exactly, without overlaps or gaps. Source: https://github.com/huggingface/safetensors#format
//
// [Open] maps a file read-only. It does not trust the file: every length, offset and shape is
// checked against the size of the file before it is used, so that a [Tensor] never points outside
// its mapping. [OpenDir] opens all files of one model. [Write] writes a file that Open can read.
//
// # Files that change while mapped
//
// The checks apply to the file at the time when it is opened. Deleting a mapped file, or renaming
// another file over it, is harmless, because the mapping keeps the old contents. Truncating the
// file in place is not harmless: accessing a page beyond the new end raises SIGBUS. In a goroutine
// that has called runtime/debug.SetPanicOnFault(true), Go code gets a panic, from which it can
// recover. C code and a GPU cannot recover, so the process that runs the model ends. To change a
// model's files, write new files and rename them over the old ones.
package safetensors

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"sort"
	"strconv"
	"strings"
)

// DType is the type of a tensor's elements, spelled as in the header.
type DType string

// The element types of the format whose size is at least one byte.
const (
	Bool   DType = "BOOL"
	U8     DType = "U8"
	I8     DType = "I8"
	F8E4M3 DType = "F8_E4M3"
	F8E5M2 DType = "F8_E5M2"
	F8E8M0 DType = "F8_E8M0" // powers of two, without a sign
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
	Bool: 1, U8: 1, I8: 1, F8E4M3: 1, F8E5M2: 1, F8E8M0: 1,
	I16: 2, U16: 2, F16: 2, BF16: 2,
	I32: 4, U32: 4, F32: 4,
	F64: 8, I64: 8, U64: 8,
}

// Bytes returns the size of one element, or 0 for an unknown type.
func (d DType) Bytes() int { return dtypeBytes[d] }

// knownDTypes lists the known types for error messages.
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
	// Shape has the dimensions, which are never negative. It is empty for a scalar. It is shared,
	// so it must not be changed.
	Shape []int

	// From and To are the byte range [From, To) in Mapping of the file. Old writers did not align
	// the data, so From may be odd. Check it before accessing Data as wider elements.
	From, To int

	// Data has the bytes of that range. It is valid until the file is closed. If the tensor is in a
	// mapped file, it is read-only memory, and writing to it is a fault.
	Data []byte
}

// Elements returns the number of elements, the product of the dimensions. It is 1 for a scalar.
func (t Tensor) Elements() int {
	n := 1
	for _, d := range t.Shape {
		n *= d
	}
	return n
}

// ShapeText returns a shape in words, such as "3 x 4096". That of a scalar is "1".
func ShapeText(shape ...int) string {
	if len(shape) == 0 {
		return "1"
	}
	text := make([]string, len(shape))
	for i, n := range shape {
		text[i] = strconv.Itoa(n)
	}
	return strings.Join(text, " x ")
}

// sizeBytes returns the size of a tensor of this type and shape.
func sizeBytes(d DType, shape []int) (int, error) {
	if d.Bytes() == 0 {
		return 0, fmt.Errorf("unknown dtype %q (known: %s)", string(d), knownDTypes())
	}
	size, err := product(d.Bytes(), shape)
	if err != nil {
		return 0, fmt.Errorf("shape %s of %s %w", ShapeText(shape...), d, err)
	}
	return size, nil
}

// product returns the product of unit and the dimensions of shape. It returns an error if the
// product without the dimensions that are zero does not fit into an int. So partial products cannot
// overflow later.
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
