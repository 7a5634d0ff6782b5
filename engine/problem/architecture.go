package problem

// The problem of a model whose architecture Headroom does not have.

import (
	"fmt"
	"slices"
	"strings"
)

// maxTypeBytes bounds the part of a model_type that is compared with the supported ones.
const maxTypeBytes = 100

// Architecture returns the problem of a model with an unsupported model_type. It names the
// supported one with the most similar name, which is often the previous release of the same family.
// supported must not be empty.
func Architecture(modelType string, supported []string) *Problem {
	return New(UnknownArchitecture,
		"Headroom does not support the architecture \""+modelType+"\" yet",
		fmt.Sprintf("the supported one with the most similar name is %s; all are %s",
			similar(modelType, supported), strings.Join(supported, ", ")),
		"Pick a model of one of these architectures.")
}

// similar returns the one of names that is most similar to name, the first if there are several. A
// name is the more similar the fewer bytes have to be inserted, deleted or replaced, and the longer
// the common beginning is: families differ there, and variants at the end.
func similar(name string, names []string) string {
	name = name[:min(len(name), maxTypeBytes)]
	score := func(other string) int { return distance(name, other) - 2*commonPrefix(name, other) }
	return slices.MinFunc(names, func(a, b string) int { return score(a) - score(b) })
}

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
