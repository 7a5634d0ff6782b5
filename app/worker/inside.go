package worker

// The program that the process is.

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"headroom/metal"
	"headroom/metal/darwin"
)

// openGPU is what the gate tries; a test puts another in its place.
var openGPU func() (metal.Device, error) = darwin.Open

// orphanTime is how long a worker whose parent is gone may write what was read to disk.
const orphanTime = 15 * time.Second

// Main is the worker's program; it returns the exit code. Whoever starts it without the pipes is
// told so.
func Main() int {
	in, err := pipeAt(inDescriptor, "requests")
	if err != nil {
		fmt.Fprintln(os.Stderr,
			"headroom worker: this is a part of Headroom, which starts it by itself:", err)
		return 2
	}
	out, err := pipeAt(outDescriptor, "replies")
	if err != nil {
		fmt.Fprintln(os.Stderr,
			"headroom worker: this is a part of Headroom, which starts it by itself:", err)
		return 2
	}
	// The parent decides when it is time to end; what a terminal or the system sends to all of its
	// programs, the parent gets too.
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	box := newOutbox(out)
	s := newSession(box)
	s.listen(in)
	time.AfterFunc(orphanTime, func() { os.Exit(1) }) // stuck: nobody is left to end us
	s.end()
	box.close()
	<-box.done
	return 0
}

// pipeAt is the parent's pipe at a descriptor. Programs that we start do not inherit it.
func pipeAt(descriptor int, name string) (*os.File, error) {
	var s syscall.Stat_t
	if err := syscall.Fstat(descriptor, &s); err != nil ||
		s.Mode&syscall.S_IFMT != syscall.S_IFIFO {
		return nil, fmt.Errorf("descriptor %d is no pipe", descriptor)
	}
	syscall.CloseOnExec(descriptor)
	return os.NewFile(uintptr(descriptor), name), nil
}
