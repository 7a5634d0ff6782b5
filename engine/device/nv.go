//go:build nv && linux

package device

import (
	"headroom/metal"
	"headroom/metal/nv"
)

// openNV opens the NVIDIA GPU with the options of the environment.
func openNV() (metal.Device, error) { return nv.Open(nv.FromEnvironment()) }
