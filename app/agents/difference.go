package agents

// Differences between two texts, line by line, after Myers, "An O(ND) Difference Algorithm and Its
// Variations" (1986): D, the number of changed lines, is small.

import (
	"slices"
	"strings"
)

// LineKind is what happens to a line.
type LineKind string

// The kinds of lines.
const (
	Same    LineKind = "same"
	Added   LineKind = "added"
	Removed LineKind = "removed"
	Gap     LineKind = "gap" // lines that are the same and not listed
)

// Line is a line of a difference.
type Line struct {
	Kind LineKind `json:"kind"`
	Text string   `json:"text"` // without its end
}

// around is how many lines that stay the same are listed beside changed ones.
const around = 3

// difference returns the changed lines and some around them; nil if nothing changes.
func difference(before, after string) []Line {
	if before == after {
		return nil
	}
	all := script(lines(before), lines(after))
	near := make([]bool, len(all))
	for i, l := range all {
		if l.Kind != Same {
			for k := max(0, i-around); k <= min(len(all)-1, i+around); k++ {
				near[k] = true
			}
		}
	}
	list := []Line{} // empty, but not nil, if only line ends change
	for i, l := range all {
		switch {
		case near[i]:
			list = append(list, l)
		case i == 0 || near[i-1]:
			list = append(list, Line{Kind: Gap})
		}
	}
	return list
}

// lines returns the lines of a text without their ends.
func lines(text string) []string {
	var list []string
	for line := range strings.Lines(text) {
		list = append(list, strings.TrimRight(line, "\r\n"))
	}
	return list
}

// script returns the lines of both texts in order. Of a change, removed lines come first.
func script(a, b []string) []Line {
	var trace [][]int
	n, m := len(a), len(b)
	offset := n + m + 1
	v := make([]int, 2*offset+1) // v[offset+k] is the furthest x on diagonal k
	for d := 0; ; d++ {
		trace = append(trace, slices.Clone(v))
		for k := -d; k <= d; k += 2 {
			x := v[offset+k-1] + 1
			if k == -d || k < d && v[offset+k-1] < v[offset+k+1] {
				x = v[offset+k+1]
			}
			for y := x - k; x < n && y < m && a[x] == b[y]; y++ {
				x++
			}
			if v[offset+k] = x; x >= n && x-k >= m {
				return backtrack(a, b, trace, offset)
			}
		}
	}
}

// backtrack reads the way through the texts from its end.
func backtrack(a, b []string, trace [][]int, offset int) []Line {
	var back []Line
	x, y := len(a), len(b)
	for d := len(trace) - 1; d >= 0; d-- {
		v, k := trace[d], x-y
		previous := k - 1
		if k == -d || k < d && v[offset+k-1] < v[offset+k+1] {
			previous = k + 1
		}
		fromX := v[offset+previous]
		fromY := fromX - previous
		for x > fromX && y > fromY && x > 0 && y > 0 {
			back = append(back, Line{Same, a[x-1]})
			x, y = x-1, y-1
		}
		switch {
		case d == 0:
		case x > fromX:
			back = append(back, Line{Removed, a[x-1]})
		default:
			back = append(back, Line{Added, b[y-1]})
		}
		x, y = fromX, fromY
	}
	slices.Reverse(back)
	return back
}
