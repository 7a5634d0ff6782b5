package golden

// Running a case on a device, repeatedly with the same operands.

import (
	"hash/crc32"

	"headroom/kernels"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Run is a case prepared on a device.
type Run struct {
	device  kernels.Device
	op      kernels.Op
	outputs []kernels.Tensor
	buffers []*kernels.Buffer
	before  [][]byte // contents of the buffers before the operator ran
}

// Prepare makes c's operator and operands on d. They stay in its memory until d is closed. It
// returns the device's error.
func Prepare(d kernels.Device, c kernels.Case) (*Run, error) {
	l := &listing{Device: d}
	r := &Run{device: d}
	r.op, r.outputs = c.New(l, c.Rand())
	if err := d.Sync(); err != nil { // a case may fill its caches with an operator
		return nil, err
	}
	for _, b := range l.buffers {
		r.buffers, r.before = append(r.buffers, b),
			append(r.before, append([]byte(nil), b.Bytes...))
	}
	return r, nil
}

// Op returns the operator.
func (r *Run) Op() kernels.Op { return r.op }

// Compute runs the operator on fresh operands and waits for it.
func (r *Run) Compute() error {
	for i, b := range r.buffers {
		copy(b.Bytes, r.before[i])
	}
	r.device.Run(r.op)
	return r.device.Sync()
}

// Outputs returns copies of the outputs' elements.
func (r *Run) Outputs() [][]byte {
	all := make([][]byte, len(r.outputs))
	for i, t := range r.outputs {
		all[i] = t.Elements()
	}
	return all
}

// Inputs returns the checksum of the operands that the host generates for c, before any operator
// runs. It is the same on every machine.
func Inputs(c kernels.Case) Checksum {
	host := kernels.NewReference()
	defer host.Close()
	l := &listing{Device: host, skipOps: true}
	c.New(l, c.Rand())
	sum := uint32(0)
	for _, b := range l.buffers {
		sum = crc32.Update(sum, castagnoli, b.Bytes)
	}
	return Checksum(sum)
}

// listing is a device that keeps a list of its buffers. It does not run operators if skipOps is
// set.
type listing struct {
	kernels.Device
	buffers []*kernels.Buffer
	skipOps bool
}

func (l *listing) NewBuffer(bytes int) *kernels.Buffer {
	b := l.Device.NewBuffer(bytes)
	l.buffers = append(l.buffers, b)
	return b
}

func (l *listing) Run(op kernels.Op) {
	if !l.skipOps {
		l.Device.Run(op)
	}
}
