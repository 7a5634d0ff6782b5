//go:build !(linux && amd64)

package cpu

// matrixUnit reports that there is no matrix unit, or no way to request it.
func matrixUnit() bool { return false }
