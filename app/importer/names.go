package importer

// The name of a model in the root. A model's folder may have any name, so the name is made safe for
// lists, terminals and every file system. Names are compared as on the most lenient file system,
// ignoring case and Unicode normalization, so that nothing is overwritten.

import (
	"os"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// maxNameBytes bounds one part of a name. File systems allow 255 bytes.
const maxNameBytes = 200

// targetName returns a safe form of a model's name: "name" or "org/name", in Unicode form NFC,
// without characters that cannot be printed.
func targetName(name string) string {
	org, rest, two := strings.Cut(name, "/")
	if filepath.IsAbs(name) || !two { // an ID may be a path; its last part is the name
		return targetPart(filepath.Base(name))
	}
	return targetPart(org) + "/" + targetPart(filepath.Base(rest))
}

// targetPart returns a safe form of one part of a name.
func targetPart(part string) string {
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
	for len(part) > maxNameBytes {
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

// targetIn returns the target folder for a name. Folders that exist keep their spelling. taken is
// the path that already has this name; "" if there is none.
func targetIn(root, name string) (target, taken string) {
	target = root
	for part := range strings.SplitSeq(name, "/") {
		taken = ""
		entries, _ := os.ReadDir(target) // there may be none
		next := filepath.Join(target, part)
		for _, e := range entries {
			if fold(e.Name()) == fold(part) {
				next = filepath.Join(target, e.Name())
				taken = next
			}
		}
		target = next
	}
	return target, taken
}
