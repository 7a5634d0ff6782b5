//go:build nv && linux

package device

import (
	"headroom/metal"
	"headroom/metal/nv"
)

// openNV opens the NVIDIA GPU with the options of the environment. There is one stream: to decode
// with more, the host spends more time on them than the GPU saves (kernels/gpu/PERF.md).
func openNV() (metal.Device, error) {
	o := nv.FromEnvironment()
	o.Streams = 1
	return nv.Open(o)
}
