//go:build !linux && !darwin

package library

// isRemote tells a folder in which changes may happen without an event. Elsewhere nobody knows, and
// the slow scans have to do.
func isRemote(string) bool { return false }
