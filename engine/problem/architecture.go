package problem

// The problem of a model whose architecture Headroom does not have.

import (
	"fmt"
	"strings"
)

// maxTypeBytes bounds the part of a model_type that is compared with the supported ones.
const maxTypeBytes = 100

// Architecture returns the problem of a model with an unsupported model_type. If the name of a
// supported one is similar, it names that, which is often the previous release of the same family.
func Architecture(modelType string, supported []string) *Problem {
	all := strings.Join(supported, ", ")
	why := "the supported ones are " + all
	if name := similar(modelType, supported); name != "" {
		why = fmt.Sprintf("the supported one with the most similar name is %s; all are %s", name,
			all)
	}
	return New(UnknownArchitecture,
		"Headroom does not support the architecture \""+modelType+"\" yet", why,
		"Pick a model of one of these architectures.")
}

// similar returns the one of names that is most similar to name, or "" if none is. Of several it
// returns the last in alphabetical order: the newest version of a family. A name is the more
// similar the fewer bytes have to be inserted, deleted or replaced, and the longer the common
// beginning is: families differ there, and variants at the end. Case does not count.
func similar(name string, names []string) (best string) {
	name = strings.ToLower(name[:min(len(name), maxTypeBytes)])
	bestScore := 0
	for _, other := range names {
		changes, prefix := distance(name, other), commonPrefix(name, other)
		if prefix < minFamilyBytes && bytesPerChange*changes > len(name) {
			continue
		}
		score := changes - 2*prefix
		if best == "" || score < bestScore || score == bestScore && other > best {
			best, bestScore = other, score
		}
	}
	return best
}

// Two names are similar if they have a common beginning of minFamilyBytes, or at most one change in
// bytesPerChange bytes.
const (
	minFamilyBytes = 3
	bytesPerChange = 3
)

func commonPrefix(a, b string) (n int) {
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// distance returns the Levenshtein distance of two texts, in bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1) // distances of the bytes of a so far from every b[:j]
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
