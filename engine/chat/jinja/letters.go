package jinja

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"
)

// Letters and digits as Python's str knows them. package unicode maps a character to one character,
// but ß in upper case is SS, and Σ in lower case depends on whether it ends a word.

// upper is str.upper.
func upper(s string) string {
	if isASCII(s) {
		return strings.ToUpper(s)
	}
	return cases.Upper(language.Und).String(s)
}

// lower is str.lower.
func lower(s string) string {
	if isASCII(s) {
		return strings.ToLower(s)
	}
	return cases.Lower(language.Und, cases.HandleFinalSigma(true)).String(s)
}

// fold is str.casefold.
func fold(s string) string {
	if isASCII(s) {
		return strings.ToLower(s)
	}
	return cases.Fold().String(s)
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// otherDigits are the digits that are not decimal, such as ² and ①.
var otherDigits = &unicode.RangeTable{
	R16: []unicode.Range16{{0xb2, 0xb3, 1}, {0xb9, 0xb9, 1}, {0x1369, 0x1371, 1},
		{0x19da, 0x19da, 1}, {0x2070, 0x2070, 1}, {0x2074, 0x2079, 1}, {0x2080, 0x2089, 1},
		{0x2460, 0x2468, 1}, {0x2474, 0x247c, 1}, {0x2488, 0x2490, 1}, {0x24ea, 0x24ea, 1},
		{0x24f5, 0x24fd, 1}, {0x24ff, 0x24ff, 1}, {0x2776, 0x277e, 1}, {0x2780, 0x2788, 1},
		{0x278a, 0x2792, 1}},
	R32: []unicode.Range32{{0x10a40, 0x10a43, 1}, {0x10e60, 0x10e68, 1}, {0x11052, 0x1105a, 1},
		{0x1f100, 0x1f10a, 1}},
	LatinOffset: 2,
}

// isDigit is str.isdigit for one character.
func isDigit(c rune) bool { return unicode.IsDigit(c) || unicode.Is(otherDigits, c) }

// asciiDigits returns s with the decimal digits of every script as those of ASCII.
func asciiDigits(s string) string {
	if isASCII(s) {
		return s
	}
	return strings.Map(func(c rune) rune {
		for _, r := range unicode.Nd.R16 { // each script's digits begin with its zero
			if rune(r.Lo) <= c && c <= rune(r.Hi) {
				return '0' + (c-rune(r.Lo))%10
			}
		}
		for _, r := range unicode.Nd.R32 {
			if rune(r.Lo) <= c && c <= rune(r.Hi) {
				return '0' + (c-rune(r.Lo))%10
			}
		}
		return c
	}, s)
}

// isIdentifier is str.isidentifier.
func isIdentifier(s string) bool {
	for i, c := range s {
		begins := c == '_' || unicode.In(c, unicode.L, unicode.Nl, unicode.Other_ID_Start)
		if !begins && (i == 0 || !unicode.In(c, unicode.Mn, unicode.Mc, unicode.Nd, unicode.Pc,
			unicode.Other_ID_Continue)) {
			return false
		}
	}
	return s != ""
}

// isTitle is str.istitle: capitals begin words, and small letters go on.
func isTitle(s string) bool {
	inWord, cased := false, false
	for _, c := range s {
		switch {
		case unicode.IsUpper(c) || unicode.IsTitle(c):
			if inWord {
				return false
			}
			inWord, cased = true, true
		case unicode.IsLower(c):
			if !inWord {
				return false
			}
			cased = true
		default:
			inWord = false
		}
	}
	return cased
}
