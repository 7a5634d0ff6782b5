//go:build !cgo

package cpu

const native = false

func fetch(uintptr, int) {}
