package worker

import (
	"bufio"
	"os"
	"strconv"
	"strings"
)

// outOfMemoryKills counts the processes that the system has ended for lack of memory, in all
// containers; 0 where it does not tell.
func outOfMemoryKills() int64 {
	file, err := os.Open("/proc/vmstat")
	if err != nil {
		return 0
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if number, ok := strings.CutPrefix(lines.Text(), "oom_kill "); ok {
			n, _ := strconv.ParseInt(number, 10, 64)
			return n
		}
	}
	return 0
}
