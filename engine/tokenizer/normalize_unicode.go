package tokenizer

// The normalizers NFC, NFD, NFKC and NFKD: the normalization forms of Unicode.

import (
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// form is a normalization form and the decomposition that it begins with.
type form struct {
	norm.Form
	decomposition norm.Form
	composes      bool
}

var (
	formC  = form{norm.NFC, norm.NFD, true}
	formD  = form{norm.NFD, norm.NFD, false}
	formKC = form{norm.NFKC, norm.NFKD, true}
	formKD = form{norm.NFKD, norm.NFKD, false}
)

func unicodeNormalizer(f form) func(*Tokenizer, *part) (normalizeStep, error) {
	return func(t *Tokenizer, _ *part) (normalizeStep, error) {
		if f != formC && f != formD {
			t.faithful = false // four bytes can become one
		}
		return f.step, nil
	}
}

// step applies the form in parts, so that it ends with the context. A part ends where no character
// can be composed with the one before it, or ordered before it.
func (f form) step(e *encoder, s string) string {
	const part = 1 << 20
	if f.IsNormalString(s) { // true for nearly all text
		return s
	}
	var b strings.Builder
	for from := 0; from < len(s) && !e.check(); {
		to := min(from+part, len(s))
		for to < len(s) && !f.startsPart(s[to:]) {
			to++
		}
		out := f.apply(s[from:to])
		if !e.grow(len(out) - (to - from)) {
			return s
		}
		b.WriteString(out)
		from = to
	}
	return b.String()
}

// startsPart reports whether the first character of s never interacts with what is before it.
func (f form) startsPart(s string) bool {
	if !utf8.RuneStart(s[0]) {
		return false
	}
	p := f.PropertiesString(s)
	return s[0] < utf8.RuneSelf || p.BoundaryBefore() && p.CCC() == 0
}

// apply returns s in the form. After 30 combining marks in a row, x/text inserts U+034F (Unicode's
// Stream-Safe Text Format), which would change the text. Such text is normalized by decompose and
// compose instead.
//
// The reference uses Unicode tables of about version 9, so it does not reorder or compose newer
// marks. The result differs from the reference only for rare scripts.
func (f form) apply(s string) string {
	if f.QuickSpanString(s) == len(s) {
		return s
	}
	out := f.String(s)
	if strings.Count(out, cgj) == strings.Count(s, cgj) {
		return out
	}
	runes := f.decompose(s)
	if f.composes {
		return compose(runes)
	}
	return string(runes)
}

const cgj = "\u034f" // combining grapheme joiner

// nfc returns s in NFC.
func nfc(s string) string { return formC.apply(s) }

// decompose returns the decomposition of s in canonical order.
// Source: https://www.unicode.org/reports/tr15/
func (f form) decompose(s string) []rune {
	runes := make([]rune, 0, len(s))
	for _, r := range s {
		runes = append(runes, []rune(f.decomposition.String(string(r)))...)
	}
	for from := 0; from < len(runes); from++ {
		to := from
		for to < len(runes) && combiningClass(runes[to]) != 0 {
			to++
		}
		slices.SortStableFunc(runes[from:to], func(a, b rune) int {
			return int(combiningClass(a)) - int(combiningClass(b))
		})
		from = to
	}
	return runes
}

// compose composes a decomposition. Each character is composed with the last starter, unless a
// character of the same or a higher combining class is between them.
func compose(runes []rune) string {
	out := make([]rune, 0, len(runes))
	starter, last := -1, uint8(0) // index in out of the last starter; class of the last rune in out
	for _, r := range runes {
		class := combiningClass(r)
		if starter >= 0 && (starter == len(out)-1 || last < class) {
			if c, ok := composite(out[starter], r); ok {
				out[starter] = c
				continue
			}
		}
		if class == 0 {
			starter = len(out)
		}
		last = class
		out = append(out, r)
	}
	return string(out)
}

func combiningClass(r rune) uint8 {
	if r < 0x300 { // the first combining mark
		return 0
	}
	return norm.NFC.PropertiesString(string(r)).CCC()
}

// composite returns the primary composite of a and b.
func composite(a, b rune) (rune, bool) {
	pair := []rune(norm.NFC.String(string([]rune{a, b})))
	return pair[0], len(pair) == 1
}
