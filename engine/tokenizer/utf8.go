package tokenizer

// Handling of bytes that are not valid UTF-8. In the input they are replaced. In the output, a
// character may be split across several tokens, and is held back until it is complete.

import (
	"strings"
	"unicode/utf8"
)

const replacement = "\uFFFD"

// In invalid UTF-8, each maximal subpart is replaced by one U+FFFD. A maximal subpart is the
// longest prefix of a well-formed character, or else a single byte. Python's errors="replace" and
// Rust's from_utf8_lossy do the same, but Go's conversions do not. Source: The Unicode Standard,
// section 3.9, "U+FFFD Substitution of Maximal Subparts".

// subpart returns the length of the maximal subpart at the start of b. b must not be empty and must
// not start with a well-formed character. open is true if b ends with the subpart, so that more
// bytes could complete the character.
func subpart[T string | []byte](b T) (n int, open bool) {
	lead := b[0]
	lo, hi := byte(0x80), byte(0xbf) // valid range of the second byte
	need := 0                        // number of bytes after the first
	switch {
	case lead >= 0xc2 && lead <= 0xdf:
		need = 1
	case lead >= 0xe0 && lead <= 0xef:
		need = 2
		if lead == 0xe0 {
			lo = 0xa0
		} else if lead == 0xed {
			hi = 0x9f
		}
	case lead >= 0xf0 && lead <= 0xf4:
		need = 3
		if lead == 0xf0 {
			lo = 0x90
		} else if lead == 0xf4 {
			hi = 0x8f
		}
	default:
		return 1, false
	}
	for n = 1; n <= need; n++ {
		if n == len(b) {
			return n, true
		}
		if b[n] < lo || b[n] > hi {
			return n, false
		}
		lo, hi = 0x80, 0xbf
	}
	return n, false
}

// toValidUTF8 returns s with invalid parts replaced, or s itself if there are none.
func toValidUTF8(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s) + 8)
	for len(s) > 0 {
		if r, size := utf8.DecodeRuneInString(s); r != utf8.RuneError || size > 1 {
			b.WriteString(s[:size])
			s = s[size:]
			continue
		}
		n, _ := subpart(s)
		b.WriteString(replacement)
		s = s[n:]
	}
	return b.String()
}

// appendCertain appends the text of b, except for an incomplete character at its end. It returns
// the bytes of that character as rest.
func appendCertain(dst, b []byte) (text, rest []byte) {
	for len(b) > 0 {
		if b[0] < utf8.RuneSelf {
			dst = append(dst, b[0])
			b = b[1:]
			continue
		}
		if r, size := utf8.DecodeRune(b); r != utf8.RuneError || size > 1 {
			dst = append(dst, b[:size]...)
			b = b[size:]
			continue
		}
		n, open := subpart(b)
		if open {
			return dst, b
		}
		dst = append(dst, replacement...)
		b = b[n:]
	}
	return dst, nil
}
