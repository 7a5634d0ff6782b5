//go:build !nv || !linux

package device

import (
	"errors"

	"headroom/metal"
)

// openNV returns an error, because this build does not contain the NVIDIA device.
func openNV() (metal.Device, error) {
	return nil, errors.New("this build has no NVIDIA device: build on Linux with -tags nv")
}
