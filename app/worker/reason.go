package worker

// Why a process ended, in words for users. The log has the rest: the end of stderr with its stack
// traces.

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// ending is how a process ended.
type ending struct {
	reason string // a sentence without its subject's name: "it ran into..."
	// mayBeTheRequest is true if a request may have caused it, as a fault in a kernel or a lack of
	// memory, and false if something outside did, as a signal of another program or a file.
	mayBeTheRequest bool
}

// signalReasons are the signals by which a fault ends a process.
var signalReasons = map[syscall.Signal]ending{
	syscall.SIGBUS: {"it read a part of a file that is no longer there: a model file became " +
		"shorter, or its disk was removed", false},
	syscall.SIGSEGV: {"it accessed memory that is not its own, through a fault in Headroom or in " +
		"a driver", true},
	syscall.SIGABRT: {"a library or driver that it uses gave up", true},
	syscall.SIGILL:  {"it ran an instruction that this processor does not have", true},
	syscall.SIGFPE:  {"it computed something impossible, through a fault in Headroom", true},
}

// describe says how a process ended. stderr is what it printed, and memory is what is known of a
// lack of memory.
func describe(s *os.ProcessState, stderr *stderrTail, memory memoryKills) ending {
	if s == nil {
		return ending{"how it ended is unknown", false}
	}
	line, fault := stderr.reason(), stderr.fault()
	status, ok := s.Sys().(syscall.WaitStatus)
	switch signaled := ok && status.Signaled(); {
	case !signaled && strings.Contains(line, "out of memory"):
		return ending{"it needed more memory than there was", true}
	case !signaled && s.ExitCode() == exitTimeout:
		return ending{"the system ended the GPU's work because it took too long", false}
	case !signaled && fault != 0:
		return signalReasons[fault]
	case !signaled:
		return ending{withLine(fmt.Sprintf("it ended with exit code %d", s.ExitCode()), line), true}
	case status.Signal() == syscall.SIGKILL && memory.happened:
		return ending{"the system ended it because memory ran out", true}
	case status.Signal() == syscall.SIGKILL && memory.known:
		return ending{"it was killed by another program", false}
	case status.Signal() == syscall.SIGKILL:
		return ending{"it was killed by another program, or by the system because memory ran out",
			true}
	}
	if e, ok := signalReasons[status.Signal()]; ok {
		e.reason = withLine(e.reason, line)
		return e
	}
	return ending{"it was ended by the signal " + unix.SignalName(status.Signal()), false}
}

func withLine(reason, line string) string {
	if line == "" {
		return reason
	}
	return reason + "; its last output: " + line
}

// memoryKills tells whether the system has killed a process for lack of memory since a worker
// started.
type memoryKills struct{ happened, known bool }

// stderrTail keeps the end of the process's stderr, such as Go's panics and the messages of GPU
// drivers.
type stderrTail struct {
	mu        sync.Mutex
	text      []byte
	partial   string         // the line that has not ended
	deathLine string         // the first line that says why the process ended
	deathBy   syscall.Signal // the fault that Go's runtime has reported; 0: none
}

const (
	maxTailBytes    = 32 << 10
	maxReasonBytes  = 300
	maxPartialBytes = 4 << 10
)

// Write implements io.Writer. It never fails: after an error nobody would read the pipe, and a full
// pipe would block the process.
func (s *stderrTail) Write(data []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	lines := s.partial + string(data)
	for {
		line, rest, whole := strings.Cut(lines, "\n")
		if !whole {
			break
		}
		s.line(line)
		lines = rest
	}
	s.partial = lines[max(0, len(lines)-maxPartialBytes):]
	s.text = append(s.text, data...)
	s.text = s.text[max(0, len(s.text)-maxTailBytes):]
	return len(data), nil
}

// line looks at a line for the reason of the end. The caller holds mu.
func (s *stderrTail) line(line string) {
	if s.deathBy == 0 {
		s.deathBy = faultIn(line)
	}
	if s.deathLine == "" && saysWhy(line) {
		s.deathLine = line
	}
}

// faultIn returns the signal of a fault that Go's runtime reports in this line; 0 for none. It
// prints "SIGBUS: bus error", or "[signal SIGBUS: bus error code=...]" after a panic.
func faultIn(line string) syscall.Signal {
	line = strings.TrimPrefix(line, "[signal ")
	for signal := range signalReasons {
		if strings.HasPrefix(line, unix.SignalName(signal)+": ") {
			return signal
		}
	}
	return 0
}

// saysWhy reports whether Go, the C library or Apple's frameworks print a line like this one before
// they end the process. Go prints stack traces after it.
func saysWhy(line string) bool {
	for _, prefix := range []string{"panic: ", "fatal error: ", "runtime: out of memory",
		"-[MTL", "failed assertion", "terminate called", "libc++abi: "} {
		if strings.HasPrefix(line, prefix) {
			return true
		}
	}
	return faultIn(line) != 0 || strings.Contains(line, "failed assertion")
}

// fault returns the fault that Go's runtime has reported; 0 for none.
func (s *stderrTail) fault() syscall.Signal {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.deathBy
}

// reason returns the line that says why the process ended, or else the last line.
func (s *stderrTail) reason() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	line := s.deathLine
	if line == "" {
		text := strings.TrimRight(string(s.text), "\n \t")
		line = text[strings.LastIndexByte(text, '\n')+1:]
	}
	if line = strings.TrimSpace(line); len(line) > maxReasonBytes {
		line = strings.ToValidUTF8(line[:maxReasonBytes], "") + "…"
	}
	return line
}

func (s *stderrTail) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.TrimSpace(string(s.text))
}
