package kernels

import "fmt"

// DType is the type of one element in device memory.
type DType uint8

// The element types. The zero value is float32.
const (
	F32 DType = iota
	F16
	BF16
	I32
	U32
	I8
	U8
	// E4M3 is an 8-bit float with four exponent and three fraction bits; see MXFP8.
	E4M3
)

var dtypes = [...]struct {
	name string
	size int
}{F32: {"float32", 4}, F16: {"float16", 2}, BF16: {"bfloat16", 2}, I32: {"int32", 4},
	U32: {"uint32", 4}, I8: {"int8", 1}, U8: {"uint8", 1}, E4M3: {"float8_e4m3", 1}}

// Size returns the number of bytes of one element.
func (d DType) Size() int { return dtypes[d].size }

func (d DType) String() string {
	if int(d) >= len(dtypes) {
		return fmt.Sprintf("dtype(%d)", uint8(d))
	}
	return dtypes[d].name
}
