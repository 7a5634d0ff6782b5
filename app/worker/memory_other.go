//go:build !linux

package worker

// outOfMemoryKills returns 0: other systems do not count such kills.
func outOfMemoryKills() int64 { return 0 }
