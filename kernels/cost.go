package kernels

// Devices that measure what a forward pass costs. DryRun counts bytes and operations without
// computing, and NewTimedDevice measures the time of each operator.

import (
	"errors"
	"os"
	"sync/atomic"
	"time"
)

// TrafficCounter is implemented by the operators that read weights, KV caches or recurrent states.
// The traffic of all others is too small to count.
type TrafficCounter interface {
	// TrafficBytes returns the least number of bytes that one run moves to and from memory, without
	// activations.
	TrafficBytes() int64
}

// Operations counts the additions and multiplications of matrix products. A multiply-add is two.
type Operations struct {
	// Int8 are the operations on packed weights other than MXFP8, and on quantized keys and values.
	// They are integer operations unless the device keeps activations in float32.
	Int8    int64
	Float32 int64 // all other operations
}

// Add adds the counts of the argument to n.
func (n *Operations) Add(more Operations) {
	n.Int8 += more.Int8
	n.Float32 += more.Float32
}

// OperationCounter is implemented by the operators that multiply with weights, KV caches or
// recurrent states. The arithmetic of all others is too little to count.
type OperationCounter interface {
	// Operations returns the operations of the products of one run. Norms, softmax and rounding
	// cost little and are not counted.
	Operations() Operations
}

// DryRun is a device that neither computes nor allocates. Running a model on it shows how much
// memory a forward pass needs, how much it moves and how much it computes.
type DryRun struct {
	TrafficBytes   int64      // sum over all operators run so far
	Operations     Operations // sum over all operators run so far
	AllocatedBytes int64      // of all buffers so far, each in whole pages
}

// NewDryRun returns a DryRun with all counters at zero.
func NewDryRun() *DryRun { return &DryRun{} }

// Name implements Device.
func (d *DryRun) Name() string { return "dry run" }

// NewBuffer implements Device. The buffer has a size but no bytes.
func (d *DryRun) NewBuffer(bytes int) *Buffer {
	page := os.Getpagesize()
	d.AllocatedBytes += int64((bytes + page - 1) / page * page)
	return &Buffer{Size: bytes}
}

// WrapBuffer implements Device.
func (d *DryRun) WrapBuffer(b []byte) *Buffer { return &Buffer{Bytes: b, Size: len(b)} }

// Run implements Device. It checks op and counts its bytes and operations.
func (d *DryRun) Run(op Op) {
	MustCheck(op)
	if t, ok := op.(TrafficCounter); ok {
		d.TrafficBytes += t.TrafficBytes()
	}
	if w, ok := op.(OperationCounter); ok {
		d.Operations.Add(w.Operations())
	}
}

// Sync implements Device.
func (d *DryRun) Sync() error { return nil }

// Close implements Device.
func (d *DryRun) Close() {}

// OperatorTimes measures how long operators take, by name. It measures only between Start and Stop.
// It is safe for concurrent use.
type OperatorTimes struct {
	running atomic.Pointer[map[string]OperatorTime]
}

// OperatorTime sums up the runs of one kind of operator.
type OperatorTime struct {
	Runs int
	Time time.Duration
	Operations
}

// Start discards all measurements and starts measuring.
func (t *OperatorTimes) Start() { t.running.Store(&map[string]OperatorTime{}) }

// Stop stops measuring and returns the times by operator name, nil if Start was not called. The
// device must be idle.
func (t *OperatorTimes) Stop() map[string]OperatorTime {
	if m := t.running.Swap(nil); m != nil {
		return *m
	}
	return nil
}

// NewCountingDevice returns d with a counter: n grows by one with each operator that has finished.
// d must be a device whose Run returns when the operator has finished, such as the CPU.
func NewCountingDevice(d Device, n *atomic.Uint64) Device { return &counted{d, n} }

type counted struct {
	Device
	n *atomic.Uint64
}

// Run implements Device.
func (d *counted) Run(op Op) {
	d.Device.Run(op)
	d.n.Add(1)
}

// Discard implements Discarder.
func (d *counted) Discard(b *Buffer, from, to int) error { return discard(d.Device, b, from, to) }

// discard returns memory of a wrapped device to the system, if that device can.
func discard(d Device, b *Buffer, from, to int) error {
	w, ok := d.(Discarder)
	if !ok {
		return errors.ErrUnsupported
	}
	return w.Discard(b, from, to)
}

// NewTimedDevice returns d with a clock that measures each operator into t. d must be a device
// whose Run returns when the operator has finished, such as the CPU.
func NewTimedDevice(d Device, t *OperatorTimes) Device { return &timed{d, t} }

type timed struct {
	Device
	times *OperatorTimes
}

// Run implements Device.
func (d *timed) Run(op Op) {
	m := d.times.running.Load()
	if m == nil {
		d.Device.Run(op)
		return
	}
	start := time.Now()
	d.Device.Run(op)
	elapsed := time.Since(start)
	sum := (*m)[op.Name()]
	sum.Runs++
	sum.Time += elapsed
	if w, ok := op.(OperationCounter); ok {
		sum.Operations.Add(w.Operations())
	}
	(*m)[op.Name()] = sum
}

// Discard implements Discarder.
func (d *timed) Discard(b *Buffer, from, to int) error { return discard(d.Device, b, from, to) }
