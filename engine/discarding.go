package engine

import "headroom/kernels"

// discarding is a device that wraps another one whose memory can be returned to the system.
type discarding struct {
	kernels.Device
	wrapped kernels.Discarder
}

// Discard implements kernels.Discarder.
func (d *discarding) Discard(b *kernels.Buffer, from, to int) { d.wrapped.Discard(b, from, to) }
