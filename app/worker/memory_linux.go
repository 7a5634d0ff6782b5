package worker

import (
	"bufio"
	"os"
	"strconv"
	"strings"
)

// outOfMemoryKills returns how many processes the kernel has killed for lack of memory since boot,
// in all containers, and whether that is known.
func outOfMemoryKills() (kills int64, known bool) {
	file, err := os.Open("/proc/vmstat")
	if err != nil {
		return 0, false
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if number, ok := strings.CutPrefix(lines.Text(), "oom_kill "); ok {
			n, _ := strconv.ParseInt(number, 10, 64)
			return n, true
		}
	}
	return 0, false
}
