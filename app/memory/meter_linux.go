package memory

// What gopsutil does not tell on Linux, read from /proc and cgroup v2. A file that is absent or
// unreadable counts as no limit or zero: these figures refine a reading and never prevent one.

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
)

func wiredLimitBytes() int64 { return 0 }

// processFileBytes reads the resident pages of mapped files from /proc/PID/statm (third field, in
// pages; see proc(5)).
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

// containerLimit reads the limit of a container (cgroup v2) and what counts against it, without the
// file pages that the kernel would drop first.
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

// statNumber finds "key number" in a file of such lines; 0 without it.
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
