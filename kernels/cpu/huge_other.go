//go:build !linux

package cpu

// preferHugePages is nothing that a program may ask for here.
func preferHugePages([]byte) {}
