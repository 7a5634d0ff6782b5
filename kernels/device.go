package kernels

// The contract between a model and a machine. A device runs operators in order. Devices differ only
// in speed: the reference of an operator specifies its result, and every other implementation is
// tested against it.

import (
	"fmt"

	"headroom/kernels/cpu"
)

// Device runs operators in order over its own memory. It is not safe for concurrent use.
type Device interface {
	// Name describes the device to people, for example "CPU, AVX-512 VNNI, 2 threads".
	Name() string
	// NewBuffer allocates zeroed, page-aligned memory that never moves.
	NewBuffer(bytes int) *Buffer
	// WrapBuffer gives the device access to memory that the caller keeps mapped, such as a
	// checkpoint file, without copying it. The device sees the whole pages around bytes, so bytes
	// must not be in the Go heap. Operators never write to it.
	WrapBuffer(bytes []byte) *Buffer
	// Run runs op after all earlier operators. The caller may reuse the struct when Run returns,
	// although the work may still be in progress. Run panics if op.Check fails, because wrong
	// shapes are an error in the program and not in its input.
	Run(op Op)
	// Sync waits for all work. The host may then read the results.
	Sync() error
	// Close frees the device's buffers, but not wrapped memory.
	Close()
}

// AsyncDevice is a Device that works while the host does something else. To keep the device busy, a
// host commits one forward pass, encodes and commits the next, and only then waits for the first.
type AsyncDevice interface {
	Device
	// Commit starts all work recorded so far.
	Commit() Ticket
	// Wait waits for all work up to a Commit. The host may then read its results, unless work that
	// was committed later writes to the same memory.
	Wait(Ticket) error
}

// Discarder is a Device that can return parts of a buffer to the system. It runs operators at once,
// so that none is in progress that uses them.
type Discarder interface {
	Device
	// Discard returns the memory of bytes [from, to) of b, as far as it consists of whole pages of
	// the system. What it had is lost: it may read as zeros. After an error it may still be there.
	Discard(b *Buffer, from, to int) error
}

// Ticket identifies a Commit. The tickets of a device ascend.
type Ticket uint64

// Op is one operator with its operands. It has an implementation for each device.
type Op interface {
	// Name labels the operator in traces and errors, for example "rms_norm".
	Name() string
	// Check returns an error that names the wrong operand, what was given and what was expected.
	Check() error
	// Reference computes the outputs with plain scalar loops. It is the specification.
	Reference()
	// CPU computes the outputs on the threads of c.
	CPU(c *cpu.Context)
}

// Span is a run of consecutive tokens of one sequence in a batch: rows [Row, Row+Rows) of the batch
// hold positions [Pos, Pos+Rows) of the sequence.
type Span struct {
	Row, Rows int
	Pos       int     // position of the first row in its sequence, in tokens
	Pages     []int32 // the sequence's page table: position p is row p%P of page Pages[p/P]
	Slot      int32   // slot of the sequence's recurrent state; read as zeros if Pos is 0
	// Prefill is the number of leading rows that are tokens of a prompt. On a GPU these rows run on
	// matrix units, which sum in another order than the kernels for decoding. The choice must
	// depend on the row and not on its batch, so the caller makes it. 0 is correct for any span,
	// but slow for a prompt. The CPU has one order of summation and ignores Prefill.
	Prefill int
	// Compact is what rows after the prompt attend to in layers that keep all positions; nil: all
	// positions up to their own.
	Compact *Compact
	// Adapter is the number of the adapter with which these rows are computed, counted from 1; 0:
	// the model alone. Operators ignore it; see ops.Context.SetAdapter.
	Adapter int32
}

// Compact is the part of a sequence to which the rows after its prompt attend: the positions before
// First, Tokens positions of [First, From), which each layer and KV head selects on its own, and
// those from From on. First, From and Tokens are multiples of a page, and First+Tokens <= From <
// Prompt. The keys and values of the selected positions are copied to pages that only this sequence
// uses. All pages of the sequence stay as they are.
type Compact struct {
	Prompt  int // rows from this position on read the selection
	Observe int // the queries of so many last rows of the prompt select; one span has all of them
	First   int
	From    int
	Tokens  int
	Pages   []int32 // of the selected positions, in ascending order
	Table   []int32 // the pages before First, then Pages, then the pages from From on
}

// Selects reports whether s ends with the rows whose queries select the positions of its Compact.
func (s *Span) Selects() bool { return s.Compact != nil && s.Pos+s.Rows == s.Compact.Prompt }

// Compacts reports whether the rows of s read the selection of its Compact.
func (s *Span) Compacts() bool { return s.Compact != nil && s.Pos >= s.Compact.Prompt }

// Compacted returns s for attention to the selection: with the page table of its Compact, and with
// positions that count only what that table has.
func (s Span) Compacted() Span {
	c := s.Compact
	s.Pages, s.Pos = c.Table, s.Pos-(c.From-c.First-c.Tokens)
	return s
}

// Split splits s after the given number of rows, at most s.Rows. Either part may have no rows.
func (s Span) Split(rows int) (first, rest Span) {
	first, rest = s, s
	first.Rows, first.Prefill = rows, min(s.Prefill, rows)
	rest.Row, rest.Rows, rest.Pos, rest.Prefill = s.Row+rows, s.Rows-rows, s.Pos+rows,
		s.Prefill-first.Prefill
	return first, rest
}

// Round holds spans of different sequences, and the states to keep after these spans.
type Round struct {
	Spans []Span
	Keeps []Keep
}

// Keep says that a recurrent state is copied from slot From to slot To.
type Keep struct{ From, To int32 }

// CheckSpans returns an error unless the spans are in ascending order, do not overlap, are within a
// batch with the given number of rows, and each has at most Rows prefill rows.
func CheckSpans(spans []Span, rows int) error {
	end := 0
	for i, s := range spans {
		if s.Row < end || s.Rows < 1 || s.Pos < 0 || s.Row+s.Rows > rows {
			return fmt.Errorf(
				"span %d: got rows [%d, %d) at position %d, expected at least one row in [%d, %d)",
				i, s.Row, s.Row+s.Rows, s.Pos, end, rows)
		}
		if s.Prefill < 0 || s.Prefill > s.Rows {
			return fmt.Errorf("span %d: got %d prefill rows, expected 0 to %d", i, s.Prefill,
				s.Rows)
		}
		end = s.Row + s.Rows
	}
	return nil
}

// MustCheck panics with the name of op if op.Check fails. Devices call it first in Run.
func MustCheck(op Op) {
	if err := op.Check(); err != nil {
		panic(fmt.Sprintf("kernels: %s: %v", op.Name(), err))
	}
}

// NewCPU returns the CPU device.
func NewCPU(o cpu.Options) Device { return &cpuDevice{host: host{}, c: cpu.NewContext(o)} }

type cpuDevice struct {
	host
	c *cpu.Context
}

func (d *cpuDevice) Name() string { return d.c.String() }
func (d *cpuDevice) Run(op Op)    { MustCheck(op); op.CPU(d.c) }
func (d *cpuDevice) Close()       { d.c.Close(); d.host.Close() }

// NewReference returns a slow device that runs the scalar reference of every operator. Tests
// compare whole models on other devices with whole models on it.
func NewReference() Device { return &referenceDevice{} }

type referenceDevice struct{ host }

func (d *referenceDevice) Name() string { return "reference (scalar Go)" }
func (d *referenceDevice) Run(op Op)    { MustCheck(op); op.Reference() }

// host allocates device memory from the operating system, page-aligned as a GPU requires.
type host struct{ buffers []*Buffer }

func (h *host) NewBuffer(bytes int) *Buffer {
	b := &Buffer{Bytes: cpu.Map(bytes), Size: bytes}
	h.buffers = append(h.buffers, b)
	return b
}

func (h *host) WrapBuffer(bytes []byte) *Buffer { return &Buffer{Bytes: bytes, Size: len(bytes)} }

func (h *host) Discard(b *Buffer, from, to int) error { return cpu.Discard(b.Bytes[from:to:to]) }

func (h *host) Sync() error { return nil }

func (h *host) Close() {
	for _, b := range h.buffers {
		cpu.Unmap(b.Bytes)
		b.Bytes = nil
	}
	h.buffers = nil
}
