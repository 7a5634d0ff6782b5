package worker

import (
	"fmt"
	"os"
	"strings"
)

// isStopped reports whether the system has stopped a process, as SIGSTOP does.
func isStopped(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	// The state follows the name, which is in parentheses and may contain any character.
	_, state, _ := strings.Cut(string(stat[max(0, strings.LastIndexByte(string(stat), ')')):]), " ")
	return strings.HasPrefix(state, "T") // not "t": a debugger stopped it
}
