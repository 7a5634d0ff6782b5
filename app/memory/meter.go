package memory

// Meter measures total memory, available memory and the memory of Headroom's processes. A
// container's limit bounds them.

import (
	"fmt"
	"os"
	"runtime/metrics"
	"slices"
	"sync"
	"time"

	"github.com/shirou/gopsutil/v3/mem"
	"github.com/shirou/gopsutil/v3/process"
)

// maxAge is how long Read returns the same reading. Without cgo, a Mac's figures come from a child
// process (vm_stat), which is too slow to start for every request of every page.
const maxAge = time.Second

// Meter reads the machine's RAM, at most once a second. Its zero value is ready to use. Its methods
// may be called from any goroutine.
type Meter struct {
	mu   sync.Mutex
	last Reading
	at   time.Time
	pids []int // Headroom's other processes

	measure func(pids []int) (Reading, error) // nil: the machine; set in tests
	now     func() time.Time                  // nil: time.Now
}

// NewMeter returns a Meter of another machine than this one, for tests. measure gets the processes
// that Count has added.
func NewMeter(measure func(pids []int) (Reading, error)) *Meter { return &Meter{measure: measure} }

// Read returns a reading that is at most a second old. With an error it also returns the last good
// reading.
func (m *Meter) Read() (Reading, error) { return m.read(maxAge) }

// Fresh returns a new reading, for a decision right after memory was freed. With an error it also
// returns the last good reading.
func (m *Meter) Fresh() (Reading, error) { return m.read(0) }

// Count adds a process to Headroom's processes, until Forget is called.
func (m *Meter) Count(pid int) { m.change(func(pids []int) []int { return append(pids, pid) }) }

// Forget removes a process that Count has added.
func (m *Meter) Forget(pid int) {
	m.change(func(pids []int) []int {
		return slices.DeleteFunc(pids, func(p int) bool { return p == pid })
	})
}

func (m *Meter) change(edit func(pids []int) []int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pids, m.at = edit(m.pids), time.Time{}
}

func (m *Meter) read(age time.Duration) (Reading, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	measure, now := m.measure, m.now
	if measure == nil {
		measure = readMachine
	}
	if now == nil {
		now = time.Now
	}
	if !m.at.IsZero() && now().Sub(m.at) < age {
		return m.last, nil
	}
	reading, err := measure(m.pids)
	if err != nil {
		return m.last, err
	}
	m.last, m.at = reading, now()
	return reading, nil
}

// readMachine asks the operating system.
func readMachine(pids []int) (Reading, error) {
	ram, err := mem.VirtualMemory()
	if err != nil {
		return Reading{}, fmt.Errorf("reading the system's memory: %w", err)
	}
	r := Reading{TotalBytes: int64(ram.Total), AvailableBytes: int64(ram.Available),
		WiredLimitBytes: wiredLimitBytes(), Pressure: readPressure()}
	for _, pid := range append([]int{os.Getpid()}, pids...) {
		// A process that has just ended uses no memory.
		if p, err := process.NewProcess(int32(pid)); err == nil {
			if info, err := p.MemoryInfo(); err == nil {
				r.ProcessBytes += int64(info.RSS)
				r.ProcessFileBytes += min(processFileBytes(pid), int64(info.RSS))
			}
		}
	}
	r.RuntimeBytes = min(runtimeBytes(), r.ProcessBytes)
	if limit, used, ok := containerLimit(); ok && limit < r.TotalBytes {
		r.TotalBytes = limit
		r.AvailableBytes = min(r.AvailableBytes, max(limit-used, 0))
	}
	r.AvailableBytes = min(r.AvailableBytes, r.TotalBytes)
	return r, nil
}

// runtimeBytes returns the memory of the Go runtime. The engine's tensors are mapped outside of it.
func runtimeBytes() int64 {
	samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(samples)
	for _, s := range samples {
		if s.Value.Kind() != metrics.KindUint64 {
			return 0
		}
	}
	return int64(samples[0].Value.Uint64() - samples[1].Value.Uint64())
}
