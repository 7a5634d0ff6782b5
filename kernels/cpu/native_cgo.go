//go:build cgo

package cpu

/*
#cgo CFLAGS: -O3 -std=c11 -g0
#cgo noescape headroom_cpu_prefetch
#cgo nocallback headroom_cpu_prefetch
#include <stdint.h>

static void headroom_cpu_prefetch(uintptr_t at, intptr_t bytes) {
	for (intptr_t i = 0; i < bytes; i += 64) __builtin_prefetch((const char *)at + i, 0, 2);
}
*/
import "C"

// native reports whether the C kernels are part of this build.
const native = true

// prefetch loads memory into the second-level cache of this thread's core. The address need not be
// valid.
func prefetch(at uintptr, bytes int) { C.headroom_cpu_prefetch(C.uintptr_t(at), C.intptr_t(bytes)) }
