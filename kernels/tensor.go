package kernels

// Operands: device memory, matrices in it, and the bounds checks that every kernel relies on. A
// Tensor is a small value that owns nothing. Buffers belong to their device and live until it is
// closed.

import (
	"fmt"
	"unsafe"
)

// Buffer is a contiguous piece of device memory. All devices have unified memory, so the host may
// read Bytes, but not while work that writes to the buffer is in progress. Device.Sync waits for
// such work.
type Buffer struct {
	Bytes  []byte // the host's view; nil on a device that only measures
	Size   int    // length in bytes
	Handle any    // the device's object for the memory; nil on the CPU
}

// Tensor is a row-major matrix of Rows x Cols elements in a Buffer, with consecutive rows Stride
// elements apart. Heads, gates and slices of a wider projection are views of one tensor: Reshape,
// Columns and RowRange never copy. The zero Tensor means "none".
type Tensor struct {
	Buffer *Buffer
	Offset int // bytes from the start of Buffer to element [0, 0]
	DType  DType
	Rows   int
	Cols   int
	Stride int // elements between the starts of consecutive rows, at least Cols; see Repeat
}

// NewTensor allocates a contiguous tensor of zeros on d.
func NewTensor(d Device, dtype DType, rows, cols int) Tensor {
	return Tensor{Buffer: d.NewBuffer(rows * cols * dtype.Size()), DType: dtype, Rows: rows,
		Cols: cols, Stride: cols}
}

// FromFloat32s allocates a float32 tensor on d and fills it with values, row by row.
func FromFloat32s(d Device, rows, cols int, values []float32) Tensor {
	t := NewTensor(d, F32, rows, cols)
	if t.Buffer.Bytes != nil {
		copy(t.Float32s(), values)
	}
	return t
}

// IsNone reports whether t is the zero Tensor.
func (t Tensor) IsNone() bool { return t.Buffer == nil }

// Contiguous reports whether consecutive rows have no gap between them.
func (t Tensor) Contiguous() bool { return t.Stride == t.Cols || t.Rows <= 1 }

// RowRange returns the view of rows [from, to). It panics if there are no such rows.
func (t Tensor) RowRange(from, to int) Tensor {
	if from < 0 || to < from || to > t.Rows {
		panic(fmt.Sprintf("kernels: Tensor.RowRange(%d, %d) of %d rows", from, to, t.Rows))
	}
	t.Offset += from * t.Stride * t.DType.Size()
	t.Rows = to - from
	return t
}

// Columns returns the view of columns [from, to) of every row. It panics if there are no such
// columns.
func (t Tensor) Columns(from, to int) Tensor {
	if from < 0 || to < from || to > t.Cols {
		panic(fmt.Sprintf("kernels: Tensor.Columns(%d, %d) of %d columns", from, to, t.Cols))
	}
	t.Offset += from * t.DType.Size()
	t.Cols = to - from
	return t
}

// Repeat returns a view of rows rows that are all the same row, the only one of t. Its Stride is 0.
// It is for operands that are only read. It panics if t has another number of rows.
func (t Tensor) Repeat(rows int) Tensor {
	if t.Rows != 1 {
		panic(fmt.Sprintf("kernels: Tensor.Repeat of %s: expected one row", t))
	}
	t.Rows, t.Stride = rows, 0
	return t
}

// Reshape returns the view of a contiguous tensor as a matrix of rows x cols. It panics if t is not
// contiguous or has another number of elements.
func (t Tensor) Reshape(rows, cols int) Tensor {
	if !t.Contiguous() || rows*cols != t.Rows*t.Cols {
		panic(fmt.Sprintf("kernels: Tensor.Reshape(%d, %d) of %s: expected a contiguous tensor "+
			"with the same number of elements", rows, cols, t))
	}
	t.Rows, t.Cols, t.Stride = rows, cols, cols
	return t
}

// Bytes returns the memory from the first element to the last, including the gaps between rows.
func (t Tensor) Bytes() []byte {
	if t.Rows == 0 || t.Cols == 0 {
		return nil
	}
	return t.Buffer.Bytes[t.Offset : t.Offset+((t.Rows-1)*t.Stride+t.Cols)*t.DType.Size()]
}

// Elements returns a copy of the elements without the gaps between rows.
func (t Tensor) Elements() []byte {
	var b []byte
	for r := range t.Rows {
		b = append(b, t.RowRange(r, r+1).Bytes()...)
	}
	return b
}

// Ptr returns the address of element [0, 0] for a C kernel, or nil if t is empty. Device memory
// never moves, but the buffer must outlive the use of the pointer.
func (t Tensor) Ptr() unsafe.Pointer {
	if b := t.Bytes(); len(b) > 0 {
		return unsafe.Pointer(&b[0])
	}
	return nil
}

// Float32s returns the host's view of a float32 tensor, including the gaps between rows.
func (t Tensor) Float32s() []float32 { return view[float32](t, F32) }

// Int32s returns the host's view of an int32 tensor, including the gaps between rows.
func (t Tensor) Int32s() []int32 { return view[int32](t, I32) }

// Row returns the host's view of row r of a float32 tensor.
func (t Tensor) Row(r int) []float32 { return t.RowRange(r, r+1).Float32s() }

func view[T float32 | int32](t Tensor, want DType) []T {
	if t.DType != want {
		panic(fmt.Sprintf("kernels: view of %s as %s", t, want))
	}
	b := t.Bytes()
	if len(b) == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&b[0])), len(b)/want.Size())
}

func (t Tensor) String() string {
	if t.IsNone() {
		return "none"
	}
	return fmt.Sprintf("%s of %d x %d", t.DType, t.Rows, t.Cols)
}

// CheckShape returns an error unless t is a matrix of rows x cols elements of dtype within its
// buffer. The error begins with the string what. A value of -1 for rows or cols matches any number.
// Operators call CheckShape in Check.
func CheckShape(what string, t Tensor, dtype DType, rows, cols int) error {
	switch {
	case t.IsNone():
		return fmt.Errorf("%s: got none, expected %s of %d x %d", what, dtype, rows, cols)
	case t.DType != dtype || rows >= 0 && t.Rows != rows || cols >= 0 && t.Cols != cols:
		return fmt.Errorf("%s: got %s, expected %s of %d x %d", what, t, dtype, rows, cols)
	case t.Rows > 0 && t.Offset+((t.Rows-1)*t.Stride+t.Cols)*dtype.Size() > t.Buffer.Size ||
		t.Offset < 0:
		return fmt.Errorf("%s: got %s with stride %d at byte %d, expected it to end within its "+
			"buffer of %d bytes", what, t, t.Stride, t.Offset, t.Buffer.Size)
	}
	return nil
}
