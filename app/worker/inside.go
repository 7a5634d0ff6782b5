package worker

// The main function of the worker process.

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

// openMetal opens the GPU of models; nil: the Mac's. Tests replace it.
var openMetal func() (metal.Device, error)

// exitTimeout is the exit code after the system has ended the GPU's work: the GPU computes nothing
// more for this process, and a new one works. It is EX_TEMPFAIL of sysexits.h.
const exitTimeout = 75

// orphanTime is how long a worker may go on writing cached blocks to disk after its parent has
// ended.
const orphanTime = 15 * time.Second

// Main runs the worker process and returns its exit code: 0, or 2 if the program was started
// without a parent's pipes.
func Main() int {
	in, err := pipeAt(inDescriptor, "requests")
	if err != nil {
		return notAWorker(err)
	}
	out, err := pipeAt(outDescriptor, "replies")
	if err != nil {
		return notAWorker(err)
	}
	// The parent decides when the worker ends. It receives the same signals from the terminal and
	// the system.
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	box := newOutbox(out)
	s := newSession(box)
	s.listen(in)
	// If the session hangs, the worker must end itself: the parent may have ended.
	time.AfterFunc(orphanTime, func() { os.Exit(1) })
	s.end()
	box.close()
	<-box.done
	return 0
}

func notAWorker(err error) int {
	fmt.Fprintln(os.Stderr,
		"headroom worker: Headroom starts this command itself; do not run it directly:", err)
	return 2
}

// pipeAt returns the parent's pipe at a file descriptor and sets close-on-exec, so that child
// processes do not inherit it.
func pipeAt(descriptor int, name string) (*os.File, error) {
	var s syscall.Stat_t
	if err := syscall.Fstat(descriptor, &s); err != nil ||
		s.Mode&syscall.S_IFMT != syscall.S_IFIFO {
		return nil, fmt.Errorf("file descriptor %d is not a pipe", descriptor)
	}
	syscall.CloseOnExec(descriptor)
	return os.NewFile(uintptr(descriptor), name), nil
}
