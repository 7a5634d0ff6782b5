package problem

import (
	"cmp"
	"slices"
	"strings"
)

// Nearest returns names ordered by their similarity to name, the most similar first. Of a name with
// slashes, such as a model's, the part after the last slash counts if it is more similar. Case does
// not count.
func Nearest(name string, names []string) []string {
	type scored struct {
		name  string
		score int
	}
	list := make([]scored, len(names))
	for i, other := range names {
		score := difference(lastPart(name), lastPart(other))
		list[i] = scored{other, min(score, difference(name, other))}
	}
	slices.SortStableFunc(list, func(a, b scored) int { return cmp.Compare(a.score, b.score) })
	ordered := make([]string, len(list))
	for i, s := range list {
		ordered[i] = s.name
	}
	return ordered
}

// Alike reports whether at most a few bytes have to be inserted, deleted or replaced to make one
// name of the other. Case does not count.
func Alike(a, b string, edits int) bool {
	return len(a) <= maxTypeBytes && distance(strings.ToLower(a), strings.ToLower(b)) <= edits
}

func lastPart(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }

// difference is smaller the fewer bytes have to be inserted, deleted or replaced, and the longer
// the common beginning is.
func difference(a, b string) int {
	a = strings.ToLower(a[:min(len(a), maxTypeBytes)])
	b = strings.ToLower(b[:min(len(b), maxTypeBytes)])
	return distance(a, b) - 2*commonPrefix(a, b)
}
