//go:build !linux

package cpu

// preferHugePages does nothing: this system takes no such request.
func preferHugePages([]byte) {}
