package memory

// Linux's pressure stall information (https://docs.kernel.org/accounting/psi.html) and its swap.

import (
	"bufio"
	"os"
	"strconv"
	"strings"
)

// stallFiles has the pressure files, the closest one first: that of the container, and that of the
// machine.
var stallFiles = []string{"/sys/fs/cgroup/memory.pressure", "/proc/pressure/memory"}

func readPressure() Pressure { return pressureIn(stallFiles, "/proc/meminfo") }

// pressureIn reads the first of these pressure files that exists, and swap from a file like
// /proc/meminfo.
func pressureIn(stalls []string, meminfo string) (p Pressure) {
	for _, name := range stalls {
		data, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		some, ok := stallShare(string(data), "some")
		full, _ := stallShare(string(data), "full")
		if ok {
			p.Level, p.StallPercent = levelOf(some, full), some
			break
		}
	}
	total := meminfoBytes(meminfo, "SwapTotal:")
	p.SwapTotalBytes, p.SwapUsedBytes = total, max(total-meminfoBytes(meminfo, "SwapFree:"), 0)
	return p
}

// stallShare returns avg10 of the line that begins with kind: "some avg10=0.12 avg60=…".
func stallShare(text, kind string) (percent float64, ok bool) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] != kind {
			continue
		}
		value, found := strings.CutPrefix(fields[1], "avg10=")
		percent, err := strconv.ParseFloat(value, 64)
		return percent, found && err == nil
	}
	return 0, false
}

// meminfoBytes returns the figure of a line "key 123 kB", 0 without one.
func meminfoBytes(path, key string) int64 {
	file, err := os.Open(path)
	if err != nil {
		return 0
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); len(fields) >= 2 && fields[0] == key {
			kilobytes, _ := strconv.ParseInt(fields[1], 10, 64)
			return kilobytes << 10
		}
	}
	return 0
}
