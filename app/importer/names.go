package importer

// The name of a model in the root. It comes from a folder with any name, and is changed to one that
// is safe in lists, terminals and every file system. Names are compared like the most lenient file
// system does, ignoring case and Unicode normalization, so that nothing is overwritten.

import (
	"os"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// mostNameBytes bounds one part of a name. File systems allow 255 bytes.
const mostNameBytes = 200

// goalName returns a safe form of a model's name: "name" or "org/name", in Unicode form NFC,
// without characters that cannot be printed.
func goalName(name string) string {
	org, rest, two := strings.Cut(name, "/")
	if filepath.IsAbs(name) || !two { // an ID may be a path; its last part is the name
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
	part = strings.TrimLeft(part, ". ") // hidden folders are not scanned
	for len(part) > mostNameBytes {
		_, size := utf8.DecodeLastRuneInString(part)
		part = part[:len(part)-size]
	}
	if part = strings.TrimSpace(part); part == "" {
		return "model"
	}
	return part
}

// fold returns a form that is equal for names that some file system considers the same.
func fold(name string) string { return norm.NFC.String(cases.Fold().String(norm.NFC.String(name))) }

// goalIn returns the target folder for a name, in the spelling of folders that exist, and the path
// that already has this name; "" if none has.
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
