package commands

// The formats of sizes, durations and texts in tables and messages.

import (
	"fmt"
	"strings"
	"time"
)

// clip returns a text as one line of at most width characters, without control characters.
func clip(text string, width int) string {
	text = oneLine(text)
	if runes := []rune(text); len(runes) > width {
		text = strings.TrimSpace(string(runes[:width-1])) + "…"
	}
	return text
}

// oneLine returns a text as one line without control characters. Names of folders and models come
// from anywhere, and a terminal obeys the control characters in them.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if isControl(r) {
			return ' '
		}
		return r
	}, text)
}

// printable is like oneLine, but keeps line ends and tabs. It is for answers of models and for
// errors.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if isControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, text)
}

// isControl reports whether a terminal may do something else with r than to show it: move the
// cursor, change colours, reverse the text.
func isControl(r rune) bool {
	return r < ' ' || r >= 0x7f && r < 0xa0 || r >= '\u2028' && r <= '\u202e' ||
		r >= '\u2066' && r <= '\u2069' || r == '\u200e' || r == '\u200f'
}

// count returns a number with its noun: "1 file", "2 files".
func count[N int | int64](n N, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// formatBytes returns a size in decimal units, like the cache's flags: "1.5 GB".
func formatBytes(bytes int64) string {
	units := []string{"B", "kB", "MB", "GB", "TB"}
	value, unit := float64(bytes), 0
	for value >= 999.5 && unit < len(units)-1 {
		value, unit = value/1000, unit+1
	}
	if unit == 0 || value >= 99.95 {
		return fmt.Sprintf("%.0f %s", value, units[unit])
	}
	return fmt.Sprintf("%.1f %s", value, units[unit])
}

// formatLimit returns a limit in words. A negative limit means none.
func formatLimit(bytes int64) string {
	if bytes < 0 {
		return "no limit"
	}
	return "at most " + formatBytes(bytes)
}

// formatSeconds returns a duration in words: "1.5 s", "2m3s".
func formatSeconds(seconds float64) string {
	if seconds < 59.95 {
		return fmt.Sprintf("%.1f s", seconds)
	}
	return time.Duration(seconds * float64(time.Second)).Round(time.Second).String()
}

// ago returns how long ago a time was; "never" for 0.
func ago(now time.Time, unixMs int64) string {
	if unixMs == 0 {
		return "never"
	}
	passed := now.Sub(time.UnixMilli(unixMs))
	for _, u := range []struct {
		unit time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "min"}} {
		if passed >= u.unit {
			return fmt.Sprintf("%d %s ago", passed/u.unit, u.name)
		}
	}
	return "just now"
}
