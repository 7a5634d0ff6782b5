package kernels

// Devices that tell what a pass costs: DryRun counts its bytes and operations without computing,
// Timed says where the time goes.

import (
	"sync/atomic"
	"time"
)

// TrafficCounter is what operators implement whose memory traffic is worth counting: those that
// read weights, caches or states.
type TrafficCounter interface {
	// TrafficBytes is the bytes that one run must move to and from memory at least, activations not
	// counted.
	TrafficBytes() int64
}

// Operations are the additions and multiplications of products, so a multiply-add is two.
type Operations struct {
	// with packed weights, or quantized keys and values: of integers, unless the device keeps
	// activations in float32
	Int8    int64
	Float32 int64 // all others
}

// Add adds more.
func (n *Operations) Add(more Operations) {
	n.Int8 += more.Int8
	n.Float32 += more.Float32
}

// OperationCounter is what operators implement whose arithmetic is worth counting: those that
// multiply with weights, caches or states.
type OperationCounter interface {
	// Operations is what one run must do at least; what costs less than the products (norms,
	// softmax, rounding) is not counted.
	Operations() Operations
}

// DryRun is a device that computes nothing and allocates nothing: running a model on it shows how
// much memory a pass needs, how much it moves and how much it computes.
type DryRun struct {
	TrafficBytes int64      // the sum of all operators' Traffic
	Operations   Operations // the sum of all operators' Work
}

// NewDryRun makes a measuring device.
func NewDryRun() *DryRun { return &DryRun{} }

// Name implements Device.
func (d *DryRun) Name() string { return "measure" }

// NewBuffer implements Device: the buffer has a size and no bytes.
func (d *DryRun) NewBuffer(bytes int) *Buffer { return &Buffer{Size: bytes} }

// WrapBuffer implements Device.
func (d *DryRun) WrapBuffer(b []byte) *Buffer { return &Buffer{Bytes: b, Size: len(b)} }

// Run implements Device: it checks op and counts.
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

// OperatorTimes is where the time of operators goes, by their names. Nothing is counted until
// Start. Any goroutine may use it.
type OperatorTimes struct {
	running atomic.Pointer[map[string]OperatorTime]
}

// OperatorTime is what the runs of one kind of operator took.
type OperatorTime struct {
	Runs int
	Time time.Duration
	Operations
}

// Start begins anew.
func (t *OperatorTimes) Start() { t.running.Store(&map[string]OperatorTime{}) }

// Stop ends the counting and returns what was counted since Start. The device must be idle.
func (t *OperatorTimes) Stop() map[string]OperatorTime {
	if m := t.running.Swap(nil); m != nil {
		return *m
	}
	return nil
}

// NewCountingDevice is d, with the operators that it has done counted in n. d has to be one that
// has done an operator when Run returns, as the CPU is.
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

// NewTimedDevice is d, with the time of its operators in t. d has to be one that has done an
// operator when Run returns, as the CPU is.
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
	took := time.Since(start)
	sum := (*m)[op.Name()]
	sum.Runs++
	sum.Time += took
	if w, ok := op.(OperationCounter); ok {
		sum.Operations.Add(w.Operations())
	}
	(*m)[op.Name()] = sum
}
