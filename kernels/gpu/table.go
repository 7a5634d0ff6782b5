package gpu

// Operands that are not a model's tensors: tables that the host computes for a dispatch, and memory
// between the dispatches of one operator.

import (
	"fmt"
	"slices"
	"unsafe"
)

// Table is n integers to fill and pass on as Ints: spans, page tables. They are the context's: good
// until the next call.
func (c *Context) Table(n int) []int32 {
	c.ints = slices.Grow(c.ints[:0], n)[:n]
	return c.ints
}

// Ints is a read operand of host data. Dispatch copies it beside the parameters, once for equal
// tables in a row: layers of a model share theirs. In the source it is device const int* or
// constant int*; an empty table is bound to nothing.
func Ints(values []int32) Operand { return Operand{table: values} }

// tablesKept is the latest tables of a recorder that a new one is compared with.
const tablesKept = 4

// tableAt is a table of n integers at byte from of a recorder's ring.
type tableAt struct{ from, n int }

func tableBytes(operands []Operand) int {
	bytes := 0
	for _, o := range operands {
		bytes += aligned(4*len(o.table)) + paramAlign
	}
	return bytes
}

// place is where values stand in the ring, which has room for them.
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

// leastScratch is the memory for scratch operands that the first one makes; twice what the largest
// needs, where that is more, so that two operators in a row do not wait for each other.
const leastScratch = 4 << 20

// scratch is memory that operators take turns in, from its start again when its end is reached:
// hazards keep them apart.
type scratch struct {
	memory      *memory
	bytes, next int
}

// Scratch is a write operand of memory that no tensor has, for what a dispatch leaves to the next
// one of the same operator, which takes it as ToRead of it. It holds anything at first. An operator
// calls it once: a second call may give the same memory.
func (c *Context) Scratch(bytes int) Operand {
	bytes = (bytes + 255) &^ 255
	s := &c.scratch
	if s.bytes < bytes {
		size := leastScratch
		for size < 2*bytes {
			size *= 2
		}
		// the old one lasts as long as the device: work under way may use it
		b, err := c.m.NewBuffer("scratch", size)
		if err != nil {
			c.fail(err)
			return Operand{write: true}
		}
		*s = scratch{memory: &memory{buffer: b}, bytes: size}
	}
	if s.next+bytes > s.bytes {
		s.next = 0
	}
	o := Operand{memory: s.memory, from: s.next, bytes: bytes, write: true}
	s.next += bytes
	return o
}

// Part is bytes [from, to) of an operand, which must be within it: an operator has one Scratch, and
// may want several things to lie there.
func (o Operand) Part(from, to int) Operand {
	if from < 0 || to < from || o.memory != nil && to > o.bytes {
		panic(fmt.Sprintf("gpu: Operand.Part: bytes [%d, %d) of %d", from, to, o.bytes))
	}
	if o.memory != nil { // else the device has refused it, and says so
		o.from, o.bytes = o.from+from, to-from
	}
	return o
}

// ToRead is the same memory for a kernel that only reads it.
func (o Operand) ToRead() Operand {
	o.write = false
	return o
}
