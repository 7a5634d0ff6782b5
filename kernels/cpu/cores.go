package cpu

import (
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

// performanceCores returns the processors in allowed that are performance cores, in the order of
// allowed. sys is Linux's /sys. Intel's hybrid processors list their performance cores in
// devices/cpu_core/cpus. Elsewhere each processor has a cpu_capacity, and a processor with at least
// half of the greatest capacity is a performance core. If the system reports neither, or allows no
// performance core, performanceCores returns allowed.
func performanceCores(sys fs.FS, allowed []int) []int {
	var cores []int
	if list, err := fs.ReadFile(sys, "devices/cpu_core/cpus"); err == nil {
		cores, _ = parseCPUList(string(list))
	} else {
		cores = highCapacityCores(sys, allowed)
	}
	found := slices.DeleteFunc(slices.Clone(allowed), func(cpu int) bool {
		return !slices.Contains(cores, cpu)
	})
	if len(found) == 0 {
		return allowed
	}
	return found
}

// highCapacityCores returns the processors in allowed with at least half of the greatest
// cpu_capacity among them, and none if a capacity is unknown.
func highCapacityCores(sys fs.FS, allowed []int) []int {
	capacities := make([]int, len(allowed))
	for i, cpu := range allowed {
		text, err := fs.ReadFile(sys, fmt.Sprintf("devices/system/cpu/cpu%d/cpu_capacity", cpu))
		if err == nil {
			capacities[i], err = strconv.Atoi(strings.TrimSpace(string(text)))
		}
		if err != nil {
			return nil
		}
	}
	var cores []int
	for i, cpu := range allowed {
		if 2*capacities[i] >= slices.Max(capacities) {
			cores = append(cores, cpu)
		}
	}
	return cores
}

// parseCPUList parses a list such as "0-3,8,10-11".
func parseCPUList(text string) ([]int, error) {
	var cpus []int
	for part := range strings.SplitSeq(strings.TrimSpace(text), ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, err := strconv.Atoi(first)
		if err != nil {
			return nil, fmt.Errorf("cpu list %q: %w", text, err)
		}
		to, err := strconv.Atoi(last)
		if err != nil {
			return nil, fmt.Errorf("cpu list %q: %w", text, err)
		}
		for cpu := from; cpu <= to; cpu++ {
			cpus = append(cpus, cpu)
		}
	}
	return cpus, nil
}
