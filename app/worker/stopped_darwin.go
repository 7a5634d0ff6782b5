package worker

import "golang.org/x/sys/unix"

const stoppedState = 4 // SSTOP in <sys/proc.h>

// isStopped reports whether the system has stopped a process, as SIGSTOP does.
func isStopped(pid int) bool {
	info, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	return err == nil && info.Proc.P_stat == stoppedState
}
