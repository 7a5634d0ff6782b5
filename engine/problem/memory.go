package problem

import "fmt"

// Memory returns a size of memory in words, as Activity Monitor does: a GB is 2^30 bytes, and below
// one there are MB. Every sentence that states memory has this form.
func Memory(bytes int64) string {
	switch m := float64(max(bytes, 0)) / (1 << 20); {
	case m >= 999.5:
		return fmt.Sprintf("%.1f GB", m/1024)
	case m >= 9.95:
		return fmt.Sprintf("%.0f MB", m)
	default:
		return fmt.Sprintf("%.1f MB", m)
	}
}
