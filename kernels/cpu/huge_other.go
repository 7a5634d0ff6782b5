//go:build !linux

package cpu

// preferHugePages does nothing: this system has no such request.
func preferHugePages([]byte) {}
