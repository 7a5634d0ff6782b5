package bench

import (
	"runtime"
	"strings"

	"github.com/shirou/gopsutil/v3/cpu"
	"github.com/shirou/gopsutil/v3/load"
)

// Machine describes the machine of a report. Figures mean nothing without it.
type Machine struct {
	System    string `json:"system"`              // for example "linux/amd64"
	Processor string `json:"processor,omitempty"` // as its maker calls it
	Cores     int    `json:"cores"`               // available to this process
	// Load is the system's load average over a minute, before and after the run. The second
	// includes the benchmark itself.
	Load [2]float64 `json:"load"`
}

// ThisMachine describes this machine. It sets only the first Load.
func ThisMachine() Machine {
	m := Machine{System: runtime.GOOS + "/" + runtime.GOARCH, Cores: runtime.NumCPU(),
		Load: [2]float64{LoadAverage(), 0}}
	if infos, err := cpu.Info(); err == nil && len(infos) > 0 {
		m.Processor = strings.Join(strings.Fields(infos[0].ModelName), " ")
	}
	return m
}

// LoadAverage returns the system's load average over the last minute, 0 if it is unknown.
func LoadAverage() float64 {
	avg, err := load.Avg()
	if err != nil {
		return 0
	}
	return avg.Load1
}

// busy reports whether other processes were running when the run began. The figures are then too
// low.
func (m *Machine) busy() bool { return m.Load[0] > 0.5 }
