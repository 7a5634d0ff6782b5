package gpu

// Operands that are not tensors: tables that the host computes for a dispatch, and scratch memory
// between the dispatches of an operator.

import (
	"fmt"
	"slices"
	"unsafe"
)

// Table returns n integers to fill and pass to Ints: spans, page tables. The context owns them.
// They are valid until the next call.
func (c *Context) Table(n int) []int32 {
	c.ints = slices.Grow(c.ints[:0], n)[:n]
	return c.ints
}

// Ints returns a read operand of host data. Dispatch copies it beside the parameters. Equal tables
// share one copy, as the layers of a model use the same tables. In the source the operand is device
// const int* or constant int*. An empty table binds nothing.
func Ints(values []int32) Operand { return Operand{table: values} }

// tablesKept is the number of recent tables of a recorder that a new one is compared with.
const tablesKept = 4

// tableAt is a table of n integers at offset from of a recorder's ring.
type tableAt struct{ from, n int }

func tableBytes(operands []Operand) int {
	bytes := 0
	for _, o := range operands {
		bytes += aligned(4*len(o.table)) + paramAlign
	}
	return bytes
}

// place returns the offset of values in the ring. It copies them unless a recent table is equal.
// The ring must have room for them.
func (r *recorder) place(values []int32) int {
	ring := r.params.Bytes()
	for _, t := range r.tables {
		if t.n == len(values) &&
			slices.Equal(values, unsafe.Slice((*int32)(unsafe.Pointer(&ring[t.from])), t.n)) {
			return t.from
		}
	}
	from := r.used
	copy(unsafe.Slice((*int32)(unsafe.Pointer(&ring[from])), len(values)), values)
	r.used += aligned(4 * len(values))
	if len(r.tables) == tablesKept {
		r.tables = append(r.tables[:0], r.tables[1:]...)
	}
	r.tables = append(r.tables, tableAt{from, len(values)})
	return from
}

// leastScratch is the smallest size of the scratch memory. It is at least twice the largest scratch
// operand, so that two consecutive operators do not wait for each other.
const leastScratch = 4 << 20

// scratch is a ring of memory for scratch operands. Hazards order operators that use the same part.
type scratch struct {
	memory      *memory
	bytes, next int
}

// Scratch returns a write operand of temporary memory, through which one dispatch of an operator
// passes data to the next. The next dispatch reads it as ToRead. Its contents are undefined at
// first. An operator may call Scratch only once: a second call may return the same memory.
func (c *Context) Scratch(bytes int) Operand {
	bytes = (bytes + 255) &^ 255
	s := &c.scratch
	if s.bytes < bytes {
		size := leastScratch
		for size < 2*bytes {
			size *= 2
		}
		size = max(bytes, c.atMost(size))
		// the old memory lives as long as the device: running work may use it
		b, err := c.m.NewBuffer("scratch", size)
		if err != nil {
			c.fail(err)
			return Operand{write: true}
		}
		*s = scratch{memory: oneBuffer(b), bytes: size}
	}
	if s.next+bytes > s.bytes {
		s.next = 0
	}
	o := Operand{memory: s.memory, from: s.next, bytes: bytes, write: true}
	s.next += bytes
	return o
}

// Part returns bytes [from, to) of an operand, for an operator that divides its Scratch. It panics
// unless they are within the operand.
func (o Operand) Part(from, to int) Operand {
	if from < 0 || to < from || o.memory != nil && to > o.bytes {
		panic(fmt.Sprintf("gpu: Operand.Part: bytes [%d, %d) of %d", from, to, o.bytes))
	}
	if o.memory != nil { // nil if the device has refused the memory: Sync returns that error
		o.from, o.bytes = o.from+from, to-from
	}
	return o
}

// ToRead returns the same memory as an operand that the kernel only reads.
func (o Operand) ToRead() Operand {
	o.write = false
	return o
}
