//go:build linux && amd64

package sim

// The runtime in C. A process loads it once and calls it for each dispatch.

import (
	"fmt"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"

	"headroom/metal/msl"
)

// Flags of a dispatch, as in runtime/msl.h.
const (
	flagCheck          = 1
	flagShuffleThreads = 2
)

const maxFaults = 16

// cDispatch is struct dispatch of runtime/msl.h.
type cDispatch struct {
	entry            uintptr
	buffer           [msl.MaxBuffers]uint64
	threadgroupBytes [msl.MaxBuffers]uint32
	regions          uint32
	groups           [3]uint32
	threads          [3]uint32
	flags            uint32
	seed             uint32
	workers          uint32
	stop             uint32
	constants        unsafe.Pointer
	imageFrom        uint64
	imageTo          uint64
	region           [msl.MaxBuffers]cRegion
	next             uint32
	usedBytes        uint32
	faults           uint32
	_                uint32
	fault            [maxFaults]cFault
}

type cRegion struct {
	from, to uint64
	touched  unsafe.Pointer
	writable uint64
}

type cFault struct {
	kind, group, thread, threadgroupMemory uint32
	a, b, pc                               uint64
}

// cRuntime is the loaded runtime and its dispatch function.
type cRuntime struct {
	path     string
	dispatch func(d unsafe.Pointer) int64
}

var (
	runtimesMu sync.Mutex
	// by path; devices share a runtime
	runtimes = map[string]*cRuntime{}
)

func loadRuntime(c *compiler) (*cRuntime, error) {
	path, err := c.runtime()
	if err != nil {
		return nil, err
	}
	runtimesMu.Lock()
	defer runtimesMu.Unlock()
	if rt := runtimes[path]; rt != nil {
		return rt, nil
	}
	handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_GLOBAL)
	if err != nil {
		return nil, fmt.Errorf("loading the simulated device's runtime: %w", err)
	}
	rt := &cRuntime{path: path}
	purego.RegisterLibFunc(&rt.dispatch, handle, "msl_dispatch")
	runtimes[path] = rt
	return rt, nil
}
