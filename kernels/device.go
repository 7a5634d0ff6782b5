package kernels

// The contract between models and machines: operators with operands, run in order by a device.
// Devices differ in speed alone: each operator's Reference says what the result is, and the others
// are tested against it.

import (
	"fmt"

	"headroom/kernels/cpu"
)

// Device runs operators in order over its own memory. One goroutine at a time may use it.
type Device interface {
	// Name says what it is for people, as "CPU, AVX-512 VNNI, 2 threads".
	Name() string
	// NewBuffer allocates zeroed memory that never moves, page-aligned.
	NewBuffer(bytes int) *Buffer
	// WrapBuffer makes memory the caller keeps mapped (a checkpoint file) visible to the device
	// without copying it: the whole pages around bytes, so it must not be memory of the Go heap.
	// Operators never write it.
	WrapBuffer(bytes []byte) *Buffer
	// Run performs op after every earlier op. It has consumed the struct when it returns, so the
	// caller may reuse it, but the work may still be under way. It panics if op.Check fails: shapes
	// are a matter of the program, not of its input.
	Run(op Op)
	// Sync waits for all work; then the host may read what it wrote.
	Sync() error
	// Close frees the device's buffers (not wrapped memory).
	Close()
}

// AsyncDevice is a Device whose work goes on while the host does something else. A host that wants
// to be ahead commits one pass, records and commits the next, and waits for the first alone: there
// is always work on the device.
type AsyncDevice interface {
	Device
	// Commit has all work up to here begin.
	Commit() Ticket
	// Wait waits for the work up to a Commit. Then the host may read what it wrote, as long as
	// nothing committed later writes there.
	Wait(Ticket) error
}

// Ticket is a Commit's place in the order of all of them.
type Ticket uint64

// Op is one operator with its operands. Each device finds its own implementation on it.
type Op interface {
	// Name labels traces and errors, as "rms_norm".
	Name() string
	// Check returns an error that names the operand, what it is and what it should be.
	Check() error
	// Reference computes the outputs with the obvious scalar loops. It is the specification.
	Reference()
	// CPU computes the outputs on c's threads.
	CPU(c *cpu.Context)
}

// Span is a run of consecutive tokens of one sequence in a batch: rows [Row, Row+Rows) hold
// positions [Pos, Pos+Rows).
type Span struct {
	Row, Rows int
	Pos       int     // absolute position of the first row in its sequence, in tokens
	Pages     []int32 // the sequence's page table: position p lies in page Pages[p/P], row p%P
	Slot      int32   // where the sequence's recurrent state lives; with Pos 0 it is taken as zero
	// Prefill is how many of its first rows are prefill: tokens of a prompt, however few of them
	// are in this batch. A GPU has kernels on matrix units for them, whose order of sums is another
	// than that of the kernels for decoding; which one a row gets must depend on the row and not on
	// its batch, so the caller says it. 0 is right for any span, but slow for a prompt; the CPU has
	// one order and ignores it.
	Prefill int
}

// Split cuts s where its first rows end: those, and the rest, which has no rows if s has no more.
func (s Span) Split(rows int) (first, rest Span) {
	first, rest = s, s
	first.Rows, first.Prefill = rows, min(s.Prefill, rows)
	rest.Row, rest.Rows, rest.Pos, rest.Prefill = s.Row+rows, s.Rows-rows, s.Pos+rows,
		s.Prefill-first.Prefill
	return first, rest
}

// CheckSpans returns an error unless spans lie in order, without overlap, inside rows rows, and
// have the rows that are prefill.
func CheckSpans(spans []Span, rows int) error {
	end := 0
	for i, s := range spans {
		if s.Row < end || s.Rows < 1 || s.Pos < 0 || s.Row+s.Rows > rows {
			return fmt.Errorf(
				"span %d: rows [%d, %d) at position %d, expected a run inside [%d, %d)", i, s.Row,
				s.Row+s.Rows, s.Pos, end, rows)
		}
		if s.Prefill < 0 || s.Prefill > s.Rows {
			return fmt.Errorf("span %d: %d rows of prefill, expected some of its %d", i, s.Prefill,
				s.Rows)
		}
		end = s.Row + s.Rows
	}
	return nil
}

// MustCheck panics with op's name if its Check fails; devices call it first in Run.
func MustCheck(op Op) {
	if err := op.Check(); err != nil {
		panic(fmt.Sprintf("kernels: %s: %v", op.Name(), err))
	}
}

// NewCPU is the CPU device.
func NewCPU(o cpu.Options) Device { return &cpuDevice{host: host{}, c: cpu.NewContext(o)} }

type cpuDevice struct {
	host
	c *cpu.Context
}

func (d *cpuDevice) Name() string { return d.c.String() }
func (d *cpuDevice) Run(op Op)    { MustCheck(op); op.CPU(d.c) }
func (d *cpuDevice) Close()       { d.c.Close(); d.host.Close() }

// NewReference is a slow device that runs every operator's scalar reference: whole models on it are
// the yardstick for whole models on the others.
func NewReference() Device { return &referenceDevice{} }

type referenceDevice struct{ host }

func (d *referenceDevice) Name() string { return "reference (scalar Go)" }
func (d *referenceDevice) Run(op Op)    { MustCheck(op); op.Reference() }

// host is device memory taken from the operating system, page-aligned as a GPU would want it.
type host struct{ buffers []*Buffer }

func (h *host) NewBuffer(bytes int) *Buffer {
	b := &Buffer{Bytes: cpu.Map(bytes), Size: bytes}
	h.buffers = append(h.buffers, b)
	return b
}

func (h *host) WrapBuffer(bytes []byte) *Buffer { return &Buffer{Bytes: bytes, Size: len(bytes)} }

func (h *host) Sync() error { return nil }

func (h *host) Close() {
	for _, b := range h.buffers {
		cpu.Unmap(b.Bytes)
		b.Bytes = nil
	}
	h.buffers = nil
}
