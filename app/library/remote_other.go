//go:build !linux && !darwin

package library

// isRemote reports whether changes in a folder may cause no event. It is not known on this system.
func isRemote(string) bool { return false }
