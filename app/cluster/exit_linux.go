package cluster

import (
	"errors"

	"golang.org/x/sys/unix"
)

// waitExit returns when a child process has exited, and leaves it for Wait: until then no other
// process or group gets its number, so the number can be signalled. It returns earlier if the
// system cannot say when that is.
func waitExit(pid int) {
	for errors.Is(unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
	}
}
