package worker

// The program of the worker process.

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"headroom/metal"
	"headroom/metal/darwin"
)

// openGPU opens the GPU that the gate tests. Tests replace it.
var openGPU func() (metal.Device, error) = darwin.Open

// orphanTime is how long a worker whose parent has ended may write cached blocks to disk.
const orphanTime = 15 * time.Second

// Main runs the worker process and returns its exit code: 2 if it was started without the pipes of
// a parent.
func Main() int {
	in, err := pipeAt(inDescriptor, "requests")
	if err != nil {
		fmt.Fprintln(os.Stderr,
			"headroom worker: Headroom starts this command itself; do not run it directly:", err)
		return 2
	}
	out, err := pipeAt(outDescriptor, "replies")
	if err != nil {
		fmt.Fprintln(os.Stderr,
			"headroom worker: Headroom starts this command itself; do not run it directly:", err)
		return 2
	}
	// The parent decides when the worker ends. It gets the signals of the terminal and the system
	// too.
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	box := newOutbox(out)
	s := newSession(box)
	s.listen(in)
	time.AfterFunc(orphanTime, func() { os.Exit(1) }) // stuck, and no parent is left to kill it
	s.end()
	box.close()
	<-box.done
	return 0
}

// pipeAt returns the parent's pipe at a descriptor and keeps child processes from inheriting it.
func pipeAt(descriptor int, name string) (*os.File, error) {
	var s syscall.Stat_t
	if err := syscall.Fstat(descriptor, &s); err != nil ||
		s.Mode&syscall.S_IFMT != syscall.S_IFIFO {
		return nil, fmt.Errorf("descriptor %d is not a pipe", descriptor)
	}
	syscall.CloseOnExec(descriptor)
	return os.NewFile(uintptr(descriptor), name), nil
}
