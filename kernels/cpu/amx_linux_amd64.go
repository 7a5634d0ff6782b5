package cpu

import (
	"sync"

	"golang.org/x/sys/cpu"
	"golang.org/x/sys/unix"
)

// matrixUnit requests the tiles of AMX and reports whether the process may use them. Linux grants
// them on request, to all threads for the life of the process, since they add 8 KB to a thread's
// saved state (arch_prctl(2), Documentation/arch/x86/xstate.rst).
var matrixUnit = sync.OnceValue(func() bool {
	const requestPermission, tileData = 0x1023, 18 // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILE_DATA
	if x := cpu.X86; !x.HasAMXTile || !x.HasAMXInt8 || !x.HasAMXBF16 || !x.HasAVX512BF16 {
		return false
	}
	_, _, errno := unix.RawSyscall(unix.SYS_ARCH_PRCTL, requestPermission, tileData, 0)
	return errno == 0
})
