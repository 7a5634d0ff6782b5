package bench

// Whose figures they are: a table without its machine, and how busy that was, says nothing.

import (
	"runtime"
	"strings"

	"github.com/shirou/gopsutil/v3/cpu"
	"github.com/shirou/gopsutil/v3/load"
)

// Machine is where a report was made.
type Machine struct {
	System    string `json:"system"`              // as "linux/amd64"
	Processor string `json:"processor,omitempty"` // its maker's name for it
	Cores     int    `json:"cores"`               // that this process may use
	// the system's load average over a minute, before and after; the benchmark's own threads are in
	// the second
	Load [2]float64 `json:"load"`
}

// ThisMachine describes it, with the load of now as the one before.
func ThisMachine() Machine {
	m := Machine{System: runtime.GOOS + "/" + runtime.GOARCH, Cores: runtime.NumCPU(),
		Load: [2]float64{LoadAverage(), 0}}
	if infos, err := cpu.Info(); err == nil && len(infos) > 0 {
		m.Processor = strings.Join(strings.Fields(infos[0].ModelName), " ")
	}
	return m
}

// LoadAverage is the system's load average over the last minute, 0 where it does not tell.
func LoadAverage() float64 {
	avg, err := load.Avg()
	if err != nil {
		return 0
	}
	return avg.Load1
}

// busy tells whether others were at work when the run began: then the figures are too low.
func (m *Machine) busy() bool { return m.Load[0] > 0.5 }
