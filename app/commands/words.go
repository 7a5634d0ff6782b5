package commands

// Sizes, times and texts as tables have them.

import (
	"fmt"
	"strings"
	"time"
)

// clip makes a text one line of at most so many characters, without what a terminal would obey.
func clip(text string, width int) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, text)
	if runes := []rune(text); len(runes) > width {
		text = strings.TrimSpace(string(runes[:width-1])) + "…"
	}
	return text
}

// count words a number of things.
func count[N int | int64](n N, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// bytesWords words a size in decimal units, as the cache's flags count.
func bytesWords(bytes int64) string {
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

// limitWords words a limit; below 0 there is none.
func limitWords(bytes int64) string {
	if bytes < 0 {
		return "any number"
	}
	return "at most " + bytesWords(bytes)
}

// secondsWords words a time that something took.
func secondsWords(seconds float64) string {
	if seconds < 59.95 {
		return fmt.Sprintf("%.1f s", seconds)
	}
	return time.Duration(seconds * float64(time.Second)).Round(time.Second).String()
}

// ago words a moment; 0 is never.
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
