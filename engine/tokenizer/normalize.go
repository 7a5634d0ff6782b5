package tokenizer

// Normalization before splitting. The result must equal that of the reference, because text that is
// composed differently has different tokens.

import (
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"
)

// normalizeStep is one step of the normalizer. Its input and output are valid UTF-8.
type normalizeStep func(string) string

// nfc returns s in NFC. After 30 combining marks in a row, x/text inserts U+034F (Unicode's
// Stream-Safe Text Format), which would change the text. Such text is composed by decomposeAll and
// composeAll instead.
//
// The reference uses Unicode tables of about version 9, so it does not reorder or compose newer
// marks. The result of nfc differs from the reference only for rare scripts.
func nfc(s string) string {
	if norm.NFC.QuickSpanString(s) == len(s) { // true for nearly all text
		return s
	}
	out := norm.NFC.String(s)
	if strings.Count(out, cgj) == strings.Count(s, cgj) {
		return out
	}
	return composeAll(decomposeAll(s))
}

const cgj = "\u034f" // combining grapheme joiner

// decomposeAll returns the canonical decomposition of s in canonical order.
// Source: https://www.unicode.org/reports/tr15/
func decomposeAll(s string) []rune {
	runes := make([]rune, 0, len(s))
	for _, r := range s {
		runes = append(runes, []rune(norm.NFD.String(string(r)))...)
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

// composeAll composes a canonical decomposition. Each character is composed with the last starter,
// unless a character of the same or a higher combining class is between them.
func composeAll(runes []rune) string {
	out := make([]rune, 0, len(runes))
	starter, last := -1, uint8(0) // index in out of the last starter; class of the last rune in out
	for _, r := range runes {
		class := combiningClass(r)
		if starter >= 0 && (starter == len(out)-1 || last < class) {
			if c, ok := compose(out[starter], r); ok {
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

// compose returns the primary composite of a and b.
func compose(a, b rune) (rune, bool) {
	pair := []rune(norm.NFC.String(string([]rune{a, b})))
	return pair[0], len(pair) == 1
}
