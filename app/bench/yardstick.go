package bench

import (
	"slices"
	"time"

	"headroom/engine/device"
	"headroom/kernels"
	"headroom/kernels/ceiling"
	"headroom/kernels/cpu"
)

// Yardstick measures the ceilings of a device. It can measure many times. On a virtual machine
// other machines use the same memory, so its speed changes from minute to minute. Compare a figure
// only with a ceiling measured right before and after it.
type Yardstick struct {
	device *device.Device
	read   *ceiling.Read // nil: nothing is measured
	cpu    *cpu.Context  // nil: the device is not a CPU; its arithmetic is not measured
}

// yardstickBytes is far larger than any processor cache.
const yardstickBytes = 512 << 20

// NewYardstick opens a device by name, as in engine.Options, with the given number of threads; 0:
// one per performance core. It uses half a GiB of memory, except on the simulated GPU, where it
// measures nothing. On a CPU it spends a second to find the fastest way to read memory. Errors are
// Problems.
func NewYardstick(name string, threads int) (*Yardstick, error) {
	d, err := device.Open(device.Options{Name: name, Threads: threads})
	if err != nil {
		return nil, err
	}
	y := &Yardstick{device: d}
	if d.Name == device.Sim {
		return y, nil
	}
	const cols = 64 << 10 // rows of 256 KiB
	const rows = yardstickBytes / 4 / cols
	y.read = &ceiling.Read{X: kernels.NewTensor(d.Kernels, kernels.F32, rows, cols),
		Sums: kernels.NewTensor(d.Kernels, kernels.F32, rows, 1)}
	values := y.read.X.Float32s()
	for i := 0; i < len(values); i += 1024 {
		values[i] = 1 // untouched pages would share one page of zeros
	}
	if d.Name == device.CPU {
		y.cpu = cpu.NewContext(cpu.Options{Threads: threads})
		rates, err := y.read.PatternRates(d.Kernels, time.Second)
		if err != nil {
			y.Close()
			return nil, err
		}
		y.read.Pattern = slices.Index(rates, slices.Max(rates))
	}
	return y, nil
}

// Bytes returns the number of bytes that y uses.
func (y *Yardstick) Bytes() int64 {
	if y.read == nil {
		return 0
	}
	return y.read.TrafficBytes()
}

// Close closes the device and frees the memory.
func (y *Yardstick) Close() {
	if y.cpu != nil {
		y.cpu.Close()
	}
	y.device.Close()
}

// Measure spends about the given time on memory, and as much on arithmetic. The memory figure is
// the median of many passes, because memory does not sustain the speed of the best pass.
func (y *Yardstick) Measure(during time.Duration) (m Ceilings, err error) {
	if y.read == nil {
		return m, nil
	}
	var passes []float64
	for end := time.Now().Add(during); len(passes) < 3 || time.Now().Before(end); {
		start := time.Now()
		y.device.Kernels.Run(y.read)
		if err := y.device.Kernels.Sync(); err != nil {
			return m, err
		}
		passes = append(passes, float64(y.read.TrafficBytes())/time.Since(start).Seconds())
	}
	slices.Sort(passes)
	m.ReadBytes = passes[len(passes)/2]
	if y.cpu != nil {
		m.Int8Ops = ceiling.Int8Ops(y.cpu, during/2)
		m.Float32Ops = ceiling.Float32Ops(y.cpu, during/2)
	}
	return m, nil
}
