//go:build !linux && !darwin

package power

// Read is the state now, which nobody tells here.
func Read() State { return State{} }
