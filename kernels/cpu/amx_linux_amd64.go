package cpu

import (
	"sync"

	"golang.org/x/sys/cpu"
	"golang.org/x/sys/unix"
)

// matrixUnit asks Linux for the tiles of AMX, which a process may use only with its permission
// (arch_prctl(2), Documentation/arch/x86/xstate.rst: saved state grows by 8 KB with them). It is
// the permission of all threads, for the life of the process.
var matrixUnit = sync.OnceValue(func() bool {
	const requestPermission, tileData = 0x1023, 18 // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILE_DATA
	if !cpu.X86.HasAMXTile || !cpu.X86.HasAMXInt8 {
		return false
	}
	_, _, errno := unix.RawSyscall(unix.SYS_ARCH_PRCTL, requestPermission, tileData, 0)
	return errno == 0
})
