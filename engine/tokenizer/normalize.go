package tokenizer

// Normalization before splitting. The result must equal that of the reference, because text that is
// composed differently has different tokens.

import (
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// normalizeStep is one step of the normalizer. Its input and output are valid UTF-8. If the output
// would be too large, the step calls e.fail.
type normalizeStep func(e *encoder, s string) string

// A normalizer may make text larger, such as three bytes from every space. These bounds on what it
// adds to the text of one request are far above the needs of known tokenizers.
const (
	maxGrowth   = 8        // bytes added for each byte of the text
	growthBytes = 64 << 10 // and for the text as a whole
	maxAdded    = 64 << 20
)

// grow accounts for a step that adds n bytes. It reports whether the step may make its output.
func (e *encoder) grow(n int) bool {
	if e.growth -= max(n, 0); e.growth < 0 {
		e.fail(ErrGrowth)
	}
	return e.err == nil
}

// prepend returns a step that puts prefix before every text.
func prepend(prefix string) normalizeStep {
	return func(e *encoder, s string) string {
		if s == "" || !e.grow(len(prefix)) {
			return s
		}
		return prefix + s
	}
}

// replaceLiteral returns a step that replaces every match of a string with content.
func replaceLiteral(literal, content string) normalizeStep {
	return func(e *encoder, s string) string {
		n := strings.Count(s, literal)
		if n == 0 || !e.grow(n*(len(content)-len(literal))) {
			return s
		}
		return strings.ReplaceAll(s, literal, content)
	}
}

// replace returns a step that replaces every match of a search with content.
func replace(slot int, content string) normalizeStep {
	return func(e *encoder, s string) string {
		search := e.searches[slot]
		search.reset(e, s)
		var b strings.Builder
		done := 0
		for e.err == nil {
			from, to, ok := search.next()
			if !ok || !e.grow(len(content)-(to-from)) {
				break
			}
			b.WriteString(s[done:from])
			b.WriteString(content)
			done = to
		}
		if done == 0 && b.Len() == 0 {
			return s
		}
		b.WriteString(s[done:])
		return b.String()
	}
}

// nfcStep is nfc in parts, so that it ends with the context. A part ends where no character can be
// composed with the one before it.
func nfcStep(e *encoder, s string) string {
	const part = 1 << 20
	if len(s) <= part {
		return nfc(s)
	}
	var b strings.Builder
	done := 0 // s[:done] is in b
	for from := 0; from < len(s) && !e.check(); {
		to := min(from+part, len(s))
		for to < len(s) && !startsPart(s[to:]) {
			to++
		}
		if out := nfc(s[from:to]); out != s[from:to] {
			b.WriteString(s[done:from])
			b.WriteString(out)
			done = to
		}
		from = to
	}
	if done == 0 {
		return s
	}
	b.WriteString(s[done:])
	return b.String()
}

// startsPart reports whether the first character of s is never composed with what is before it.
func startsPart(s string) bool {
	if !utf8.RuneStart(s[0]) {
		return false
	}
	p := norm.NFC.PropertiesString(s)
	return s[0] < utf8.RuneSelf || p.BoundaryBefore() && p.CCC() == 0
}

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
