//go:build !linux && !darwin

package library

// isRemote returns false: network file systems are not recognized on this system.
func isRemote(string) bool { return false }
