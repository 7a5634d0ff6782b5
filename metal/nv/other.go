//go:build !linux

package nv

import (
	"fmt"

	"headroom/metal"
)

// Device is never there on this system.
type Device struct{ metal.Device }

// Open says that the device is for Linux.
func Open(Options) (*Device, error) { return nil, fmt.Errorf("%w: it needs Linux", ErrUnavailable) }

// Seconds is 0.
func (d *Device) Seconds() float64 { return 0 }

// CopyBytesPerSecond says that the device is for Linux.
func (d *Device) CopyBytesPerSecond() (float64, error) { return 0, ErrUnavailable }
