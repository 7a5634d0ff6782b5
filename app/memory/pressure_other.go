//go:build !linux && !darwin

package memory

func readPressure() Pressure { return Pressure{} }
