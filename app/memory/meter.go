package memory

// What the machine has, measured: total, available and the share of Headroom's processes, cut down
// to a container's limit where there is one.

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

// freshness is how long a reading is served again. Without cgo, a Mac's figures come from a child
// process (vm_stat), which is too much for each question of each page.
const freshness = time.Second

// Meter reads the machine's RAM, at most once a second. Its zero value works; it is safe for
// several goroutines.
type Meter struct {
	mu   sync.Mutex
	last Reading
	at   time.Time
	pids []int // of processes beside this one

	measure func(pids []int) (Reading, error) // nil: the machine; set in tests
	now     func() time.Time                  // nil: time.Now
}

// Read returns the current reading. On an error it returns the last good one with it.
func (m *Meter) Read() (Reading, error) { return m.read(freshness) }

// Fresh is Read of this very moment: for what decides, after memory has been given back.
func (m *Meter) Fresh() (Reading, error) { return m.read(0) }

// Count has readings count a further process as Headroom's own, until Forget.
func (m *Meter) Count(pid int) { m.change(func(pids []int) []int { return append(pids, pid) }) }

// Forget undoes Count.
func (m *Meter) Forget(pid int) {
	m.change(func(pids []int) []int {
		return slices.DeleteFunc(pids,
			func(p int) bool { return p == pid })
	})
}

func (m *Meter) change(by func(pids []int) []int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pids, m.at = by(m.pids), time.Time{}
}

func (m *Meter) read(age time.Duration) (Reading, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	measure, now := m.measure, m.now
	if measure == nil {
		measure = machine
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

// machine asks the operating system.
func machine(pids []int) (Reading, error) {
	ram, err := mem.VirtualMemory()
	if err != nil {
		return Reading{}, fmt.Errorf("asking the system for its memory: %w", err)
	}
	r := Reading{TotalBytes: int64(ram.Total), AvailableBytes: int64(ram.Available),
		WiredLimitBytes: wiredLimitBytes()}
	for _, pid := range append([]int{os.Getpid()}, pids...) {
		// one that has just ended takes nothing
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

// runtimeBytes is what Go's runtime has from the system and has not given back. The engine's
// tensors are mapped past it.
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
