package tokenizer

// Normalizers that drop or map characters one by one: Lowercase, StripAccents, Strip, Nmt and
// BertNormalizer.

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// eachRune returns s with each character replaced by what rewrite appends for it.
func eachRune(e *encoder, s string, rewrite func(dst []byte, r rune) []byte) string {
	var dst []byte
	done, start := 0, true // s[:done] is in dst
	for i, r := range s {
		if i&(checkBytes-1) == 0 && e.check() {
			return s
		}
		var scratch [4 * utf8.UTFMax]byte
		out := rewrite(scratch[:0], r)
		size := max(utf8.RuneLen(r), 1)
		if len(out) == size && string(out) == s[i:i+size] {
			start = false
			continue
		}
		if start && len(out) == 0 {
			e.dropStart()
		}
		start = false
		if !e.grow(len(out) - size) {
			return s
		}
		dst = append(append(dst, s[done:i]...), out...)
		done = i + size
	}
	if done == 0 {
		return s
	}
	return string(append(dst, s[done:]...))
}

// lowercaseNormalizer maps each character to lower case, without regard to its neighbors.
func lowercaseNormalizer(t *Tokenizer, _ *part) (normalizeStep, error) {
	t.faithful = false
	return lowercase, nil
}

func lowercase(e *encoder, s string) string { return eachRune(e, s, appendLower) }

func appendLower(dst []byte, r rune) []byte {
	if r == 'İ' { // the only character with a longer lower case
		return append(dst, "i\u0307"...)
	}
	return utf8.AppendRune(dst, toLower(r))
}

// stripAccentsNormalizer drops combining marks.
func stripAccentsNormalizer(t *Tokenizer, _ *part) (normalizeStep, error) {
	t.faithful = false
	return func(e *encoder, s string) string {
		return eachRune(e, s, func(dst []byte, r rune) []byte {
			if isMark(r) {
				return dst
			}
			return utf8.AppendRune(dst, r)
		})
	}, nil
}

// stripNormalizer drops spaces at the ends of the text.
func stripNormalizer(t *Tokenizer, p *part) (normalizeStep, error) {
	t.faithful = false
	var f struct {
		Left  bool `json:"strip_left"`
		Right bool `json:"strip_right"`
	}
	err := p.read(&f)
	return func(e *encoder, s string) string {
		if f.Left {
			stripped := strings.TrimLeftFunc(s, unicode.IsSpace)
			if len(stripped) < len(s) {
				e.dropStart()
			}
			s = stripped
		}
		if f.Right {
			s = strings.TrimRightFunc(s, unicode.IsSpace)
		}
		return s
	}, err
}

// nmtNormalizer drops control characters and turns several kinds of spaces into spaces.
func nmtNormalizer(t *Tokenizer, _ *part) (normalizeStep, error) {
	t.faithful = false
	return func(e *encoder, s string) string { return eachRune(e, s, appendNmt) }, nil
}

func appendNmt(dst []byte, r rune) []byte {
	switch {
	case r >= 0x1 && r <= 0x8, r == 0xb, r >= 0xe && r <= 0x1f, r == 0x7f, r == 0x8f, r == 0x9f:
		return dst
	case r == 0x9, r == 0xa, r == 0xc, r == 0xd, r == 0x1680, r >= 0x200b && r <= 0x200f,
		r == 0x2028, r == 0x2029, r == 0x2581, r == 0xfeff, r == 0xfffd:
		return append(dst, ' ')
	}
	return utf8.AppendRune(dst, r)
}

// bertNormalizer has the steps of BERT: clean controls and spaces, put spaces around Chinese
// characters, drop accents, lowercase.
func bertNormalizer(t *Tokenizer, p *part) (normalizeStep, error) {
	t.faithful = false
	var f struct {
		CleanText          bool  `json:"clean_text"`
		HandleChineseChars bool  `json:"handle_chinese_chars"`
		StripAccents       *bool `json:"strip_accents"` // absent: as lowercase
		Lowercase          bool  `json:"lowercase"`
	}
	err := p.read(&f)
	strip := f.Lowercase
	if f.StripAccents != nil {
		strip = *f.StripAccents
	}
	return func(e *encoder, s string) string {
		if f.CleanText {
			s = eachRune(e, s, appendClean)
		}
		if f.HandleChineseChars {
			s = eachRune(e, s, appendSpacedChinese)
		}
		if strip && e.err == nil {
			s = eachRune(e, formD.step(e, s), func(dst []byte, r rune) []byte {
				if isNonspacingMark(r) {
					return dst
				}
				return utf8.AppendRune(dst, r)
			})
		}
		if f.Lowercase {
			s = lowercase(e, s)
		}
		return s
	}, err
}

func appendClean(dst []byte, r rune) []byte {
	switch {
	case r == '\t' || r == '\n' || r == '\r':
		return append(dst, ' ')
	case r == 0 || r == utf8.RuneError || isOther(r):
		return dst
	case unicode.IsSpace(r):
		return append(dst, ' ')
	}
	return utf8.AppendRune(dst, r)
}

func appendSpacedChinese(dst []byte, r rune) []byte {
	switch {
	case r >= 0x4e00 && r <= 0x9fff, r >= 0x3400 && r <= 0x4dbf, r >= 0x20000 && r <= 0x2a6df,
		r >= 0x2a700 && r <= 0x2b73f, r >= 0x2b740 && r <= 0x2b81f, r >= 0x2b920 && r <= 0x2ceaf,
		r >= 0xf900 && r <= 0xfaff, r >= 0x2f800 && r <= 0x2fa1f:
		return append(utf8.AppendRune(append(dst, ' '), r), ' ')
	}
	return utf8.AppendRune(dst, r)
}
