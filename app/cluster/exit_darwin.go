package cluster

import (
	"errors"

	"golang.org/x/sys/unix"
)

// waitExit returns when a child process has exited, and leaves it for Wait: until then no other
// process or group gets its number, so the number can be signalled. It returns earlier if the
// system cannot say when that is. It does not use waitid, which on macOS returns also when the
// process is stopped (https://go.dev/issue/19314).
func waitExit(pid int) {
	queue, err := unix.Kqueue()
	if err != nil {
		return
	}
	defer unix.Close(queue)
	var exit unix.Kevent_t
	unix.SetKevent(&exit, pid, unix.EVFILT_PROC, unix.EV_ADD|unix.EV_ONESHOT)
	exit.Fflags = unix.NOTE_EXIT
	events := make([]unix.Kevent_t, 1)
	for {
		// A process that has exited already gives the event of an error.
		_, err := unix.Kevent(queue, []unix.Kevent_t{exit}, events, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}
