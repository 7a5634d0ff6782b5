package memory

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// levels maps kern.memorystatus_vm_pressure_level to levels. The numbers are those of
// DISPATCH_MEMORYPRESSURE_* in dispatch/source.h.
var levels = map[uint32]Level{1: Normal, 2: Warning, 4: Critical}

// readPressure reads the system's own level and its swap. vm.swapusage is a struct xsw_usage
// (sys/sysctl.h): total, free and used bytes as uint64, then page size and a flag.
func readPressure() (p Pressure) {
	if n, err := unix.SysctlUint32("kern.memorystatus_vm_pressure_level"); err == nil {
		p.Level = levels[n]
	}
	if swap, err := unix.SysctlRaw("vm.swapusage"); err == nil && len(swap) >= 24 {
		p.SwapTotalBytes = int64(binary.NativeEndian.Uint64(swap))
		p.SwapUsedBytes = int64(binary.NativeEndian.Uint64(swap[16:]))
	}
	return p
}
