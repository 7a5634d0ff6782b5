//go:build !(linux && amd64)

package cpu

// matrixUnit: elsewhere there is none, or no way to ask for it.
func matrixUnit() bool { return false }
