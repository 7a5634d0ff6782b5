//go:build cgo

package cpu

/*
#cgo CFLAGS: -O3 -std=c11 -g0
#cgo noescape headroom_cpu_fetch
#cgo nocallback headroom_cpu_fetch
#include <stdint.h>

static void headroom_cpu_fetch(uintptr_t at, intptr_t bytes) {
	for (intptr_t i = 0; i < bytes; i += 64) __builtin_prefetch((const char *)at + i, 0, 2);
}
*/
import "C"

// native says that the C kernels are part of this build.
const native = true

// fetch asks for memory to come into the second-level cache of this thread's core. The address need
// not be valid.
func fetch(at uintptr, bytes int) { C.headroom_cpu_fetch(C.uintptr_t(at), C.intptr_t(bytes)) }
