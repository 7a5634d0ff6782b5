package importer

// What a model is called in the root. A name comes from a folder that anybody may have named: it
// becomes one that lists, terminals and any file system can take, and it is compared as the least
// exact file system would, so that neither "Ünïcode" in another form nor another case of letters
// slips past the rule that nothing is overwritten.

import (
	"os"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// mostNameBytes of one part of a name; file systems take 255.
const mostNameBytes = 200

// goalName makes a model's name fit: "name" or "org/name", in Unicode's composed form, without what
// is not to be printed.
func goalName(name string) string {
	org, rest, two := strings.Cut(name, "/")
	if filepath.IsAbs(name) || !two { // a model whose ID had to be its path has its folder's name
		return goalPart(filepath.Base(name))
	}
	return goalPart(org) + "/" + goalPart(filepath.Base(rest))
}

func goalPart(part string) string {
	part = norm.NFC.String(strings.ToValidUTF8(part, "_"))
	part = strings.Map(func(r rune) rune {
		switch {
		case r == '/' || r == '\\' || r == ':':
			return '_'
		case unicode.IsControl(r) || unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r) ||
			unicode.Is(unicode.Cf, r):
			return ' '
		}
		return r
	}, part)
	part = strings.Join(strings.Fields(part), " ")
	part = strings.TrimLeft(part, ". ") // hidden folders are not listed
	for len(part) > mostNameBytes {
		_, size := utf8.DecodeLastRuneInString(part)
		part = part[:len(part)-size]
	}
	if part = strings.TrimSpace(part); part == "" {
		return "model"
	}
	return part
}

// fold is equal for names that some file system takes for one.
func fold(name string) string { return norm.NFC.String(cases.Fold().String(norm.NFC.String(name))) }

// goalIn is the folder of that name in the root, in the spelling of what is there already, and what
// lies there, if something does.
func goalIn(root, name string) (goal, taken string) {
	goal = root
	for part := range strings.SplitSeq(name, "/") {
		taken = ""
		entries, _ := os.ReadDir(goal) // there may be none
		next := filepath.Join(goal, part)
		for _, e := range entries {
			if fold(e.Name()) == fold(part) {
				next = filepath.Join(goal, e.Name())
				taken = next
			}
		}
		goal = next
	}
	return goal, taken
}
