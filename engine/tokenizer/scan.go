package tokenizer

import (
	"unicode"
	"unicode/utf8"

	"headroom/engine/tokenizer/regex"
)

// Hand-written scanners for the regular expressions of common models. They are many times faster
// than package regex. Tests check that they find the same words. The expressions differ in two
// parameters: the set W of characters of a word, and the maximum number n of digits together.
//
//	(?i:'s|'t|'re|'ve|'m|'ll|'d)   contraction
//	[^\r\n\p{L}\p{N}]?W+           word, possibly with one other character before it
//	\p{N}{1,n}                     digits
//	 ?[^\s W \p{N}]+[\r\n]*        punctuation
//	\s*[\r\n]+                     spaces up to the last line break
//	\s+(?!\S)                      spaces, without the last one if other text follows
//	\s+                            spaces
//
// The first alternative that matches is used. Some alternative matches at every position.

// scanner has the parameters of an expression.
type scanner struct {
	marks  bool // W is \p{L} and \p{M}, else \p{L} alone
	digits int
}

// knownPatterns maps the regular expressions of common tokenizer.json files to their scanners.
var knownPatterns = map[string]scanner{
	qwen2Pattern:  {marks: false, digits: 1},
	qwen35Pattern: {marks: true, digits: 1},
	llama3Pattern: {marks: false, digits: 3},
}

const (
	qwen2Pattern  = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	qwen35Pattern = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	llama3Pattern = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
)

// class is one of the classes of characters that the expressions distinguish. Each character is in
// exactly one.
type class uint8

const (
	other   class = iota // punctuation, symbols, controls, unassigned
	letter               // \p{L}
	mark                 // \p{M}
	number               // \p{N}
	newline              // \r \n
	space                // \s except newline
)

var asciiClass = func() (t [utf8.RuneSelf]class) {
	for r := range t {
		t[r] = classOf(rune(r))
	}
	return t
}()

func classOf(r rune) class {
	switch {
	case unicode.IsLetter(r):
		return letter
	case unicode.IsMark(r):
		return mark
	case unicode.IsNumber(r):
		return number
	case r == '\r' || r == '\n':
		return newline
	case unicode.IsSpace(r):
		return space
	}
	return addedClass(r)
}

// addedClass returns the class of a character that Go's Unicode tables lack. For all other
// characters it returns other.
func addedClass(r rune) class {
	switch category := regex.AddedCategory(r); {
	case category == "":
	case category[0] == 'L':
		return letter
	case category[0] == 'M':
		return mark
	case category[0] == 'N':
		return number
	}
	return other
}

// at returns the class and the byte length of the character at i. At the end of text the length is
// 0.
func (s scanner) at(text string, i int) (class, int) {
	if i >= len(text) {
		return other, 0
	}
	if c := text[i]; c < utf8.RuneSelf {
		return asciiClass[c], 1
	}
	r, size := utf8.DecodeRuneInString(text[i:])
	c := classOf(r)
	// If a mark is not in W, it is like punctuation.
	if c == mark {
		if s.marks {
			return letter, size
		}
		return other, size
	}
	return c, size
}

// run returns the end of the run of characters of class c that starts at i.
func (s scanner) run(text string, i int, c class) int {
	for i < len(text) {
		got, size := s.at(text, i)
		if got != c {
			break
		}
		i += size
	}
	return i
}

// next returns the end of the word that starts at i, where i < len(text).
func (s scanner) next(text string, i int) int {
	if text[i] == '\'' {
		if n := contraction(text[i+1:]); n > 0 {
			return i + 1 + n
		}
	}
	c, size := s.at(text, i)
	if c == letter {
		return s.run(text, i+size, letter)
	}
	after, afterSize := s.at(text, i+size)
	if afterSize > 0 && after == letter && (c == other || c == space) {
		return s.run(text, i+size+afterSize, letter)
	}
	switch {
	case c == number:
		return s.number(text, i+size)
	case c == other:
		return s.run(text, s.run(text, i+size, other), newline)
	case text[i] == ' ' && afterSize > 0 && after == other:
		return s.run(text, s.run(text, i+size+afterSize, other), newline)
	}
	return s.spaces(text, i)
}

// number returns the end of a word of digits. i is the end of its first digit.
func (s scanner) number(text string, i int) int {
	for n := 1; n < s.digits; n++ {
		c, size := s.at(text, i)
		if size == 0 || c != number {
			break
		}
		i += size
	}
	return i
}

// spaces returns the end of a word of spaces. It handles the last three alternatives: text[i] is a
// space or a line break.
func (s scanner) spaces(text string, i int) int {
	// last is the start of the last character, lineBreak the end of the last line break or 0.
	end, last, lineBreak := i, i, 0
	for end < len(text) {
		c, size := s.at(text, end)
		if c == newline {
			lineBreak = end + size
		} else if c != space {
			break
		}
		last = end
		end += size
	}
	switch {
	case lineBreak > 0:
		return lineBreak
	case end == len(text) || last == i:
		return end
	}
	return last
}

// contraction returns the length of s, t, re, ve, m, ll or d at the start of text, in upper or
// lower case. It returns 0 if text starts with none of them. The long s (U+017F) matches s, because
// case is ignored.
func contraction(text string) int {
	if len(text) == 0 {
		return 0
	}
	switch text[0] | 0x20 {
	case 's', 't', 'm', 'd':
		return 1
	case 'r', 'v':
		if len(text) > 1 && text[1]|0x20 == 'e' {
			return 2
		}
	case 'l':
		if len(text) > 1 && text[1]|0x20 == 'l' {
			return 2
		}
	}
	if len(text) > 1 && text[:2] == "\u017f" {
		return 2
	}
	return 0
}
