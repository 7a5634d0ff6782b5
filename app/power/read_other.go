//go:build !linux && !darwin

package power

// Read returns the zero State: this system reports neither value.
func Read() State { return State{} }
