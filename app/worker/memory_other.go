//go:build !linux

package worker

// outOfMemoryKills returns false: other systems do not count such kills.
func outOfMemoryKills() (kills int64, known bool) { return 0, false }
