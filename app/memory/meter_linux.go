package memory

// Figures that gopsutil does not provide on Linux, read from /proc and cgroup v2. A missing or
// unreadable file means no limit, or 0; a reading does not fail because of it.

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
)

func wiredLimitBytes() int64 { return 0 }

// chipName returns "": only the names of Apple's chips tell how fast their memory is.
func chipName() string { return "" }

// processFileBytes returns the resident memory of mapped files, from the third field of
// /proc/PID/statm (see proc(5)).
func processFileBytes(pid int) int64 {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(data))
	if len(fields) < 3 {
		return 0
	}
	pages, err := strconv.ParseInt(fields[2], 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}

// containerLimit returns the memory limit of the container (cgroup v2) and the used memory, without
// the file pages that the kernel would drop first. ok is false without a container or a limit.
func containerLimit() (limit, used int64, ok bool) {
	const root = "/sys/fs/cgroup/"
	limit, ok = readNumber(root + "memory.max") // "max" when there is none
	if !ok {
		return 0, 0, false
	}
	used, ok = readNumber(root + "memory.current")
	return limit, used - statNumber(root+"memory.stat", "inactive_file"), ok
}

func readNumber(path string) (int64, bool) {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
	return n, err == nil
}

// statNumber returns the number of the line "key number" in a file, or 0 without such a line.
func statNumber(path, key string) int64 {
	file, err := os.Open(path)
	if err != nil {
		return 0
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if name, value, found := strings.Cut(lines.Text(), " "); found && name == key {
			n, _ := strconv.ParseInt(value, 10, 64)
			return n
		}
	}
	return 0
}
