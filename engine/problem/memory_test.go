package problem

import "testing"

// TestMemory: a size has the same form in a refusal and on screen.
func TestMemory(t *testing.T) {
	for bytes, want := range map[int64]string{-1: "0.0 MB", 0: "0.0 MB", 1 << 20: "1.0 MB",
		10<<20 - 60<<10: "9.9 MB", 10 << 20: "10 MB", 300 << 20: "300 MB", 999 << 20: "999 MB",
		1000 << 20: "1.0 GB", 1 << 30: "1.0 GB", 3 << 29: "1.5 GB", 70 << 30: "70.0 GB"} {
		if got := Memory(bytes); got != want {
			t.Errorf("%d bytes: %s, expected %s", bytes, got, want)
		}
	}
}
