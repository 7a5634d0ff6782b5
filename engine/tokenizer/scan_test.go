package tokenizer

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"headroom/engine/tokenizer/regex"
)

// words returns the words of text as split by the scanner and by its regular expression.
func words(s scanner, m *regex.Matcher, text string) (scanned, matched []string) {
	for i := 0; i < len(text); {
		end := s.next(text, i)
		scanned = append(scanned, text[i:end])
		i = end
	}
	m.Reset(text, nil)
	for from, to, ok := m.Next(); ok; from, to, ok = m.Next() {
		matched = append(matched, text[from:to])
	}
	return scanned, matched
}

func findAll(t testing.TB) map[string]*regex.Matcher {
	matchers := make(map[string]*regex.Matcher)
	for pattern := range knownPatterns {
		re, err := regex.Compile(pattern)
		if err != nil {
			t.Fatal(err)
		}
		matchers[pattern] = re.NewMatcher()
	}
	return matchers
}

func checkScanners(t *testing.T, matchers map[string]*regex.Matcher, text string) {
	t.Helper()
	for pattern, s := range knownPatterns {
		if scanned, matched := words(s, matchers[pattern], text); !slices.Equal(scanned, matched) {
			t.Fatalf("%s\n%q is split\n into %q\n not  %q", pattern, text, scanned, matched)
		}
	}
}

// TestScannerWords compares with the words of the reference, with examples of the alternatives.
func TestScannerWords(t *testing.T) {
	for text, want := range map[string]string{ // each word is followed by |
		"'\u017fa":   "'\u017f|a|", // a long s matches s if case is ignored
		"I'LLa 'x":   "I|'LL|a| '|x|",
		"a\n \n  b":  "a|\n \n| | b|",
		"a  ":        "a|  |",
		" !\r\n\n x": " !\r\n\n| x|",
		"12\u00a0a":  "1|2|\u00a0a|",
		// a letter of Unicode 15.1; a symbol before a word
		"\U0002ebf0\u2ebf日": "\U0002ebf0|\u2ebf日|",
	} {
		var got strings.Builder
		s := knownPatterns[qwen35Pattern]
		for i := 0; i < len(text); {
			end := s.next(text, i)
			got.WriteString(text[i:end] + "|")
			i = end
		}
		if got.String() != want {
			t.Errorf("%q is split into %q, expected %q", text, got.String(), want)
		}
	}
}

// TestScannersEqualRegexShort splits all texts of up to four characters from an alphabet that has
// characters of each class.
func TestScannersEqualRegexShort(t *testing.T) {
	matchers := findAll(t)
	alphabet := []string{"'", "s", "L", "é", "\u0301", "1", "\n", "\r", " ", "\u00a0", "!"}
	var all func(text string, depth int)
	all = func(text string, depth int) {
		checkScanners(t, matchers, text)
		if depth > 0 {
			for _, c := range alphabet {
				all(text+c, depth-1)
			}
		}
	}
	all("", 4)
}

// TestScannersEqualRegexRandom splits longer random texts with all contractions, and with
// characters from all of Unicode.
func TestScannersEqualRegexRandom(t *testing.T) {
	matchers := findAll(t)
	pieces := strings.Split(
		"'s|'T|'re|'VE|'m|'ll|'D|'|a|Hello|ß|\u0301|हिन्दी|日本|12345|½|\n|\r\n|\n\n| |   |\t|"+
			"\u2003|\u0085|\u200d|!|...|🙂|\x00|\ufffd", "|")
	random := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		var b strings.Builder
		for range random.IntN(20) {
			if random.IntN(8) == 0 {
				r := rune(random.IntN(0x3000))
				if random.IntN(2) == 0 {
					r = rune(random.IntN(0x20000))
				}
				b.WriteRune(r) // a surrogate becomes U+FFFD
			}
			b.WriteString(pieces[random.IntN(len(pieces))])
		}
		checkScanners(t, matchers, b.String())
	}
}

func FuzzScanners(f *testing.F) {
	matchers := findAll(f)
	f.Add("I'LL say: 1,234 \u0301a\n \r\n  x")
	f.Fuzz(func(t *testing.T, text string) { checkScanners(t, matchers, toValidUTF8(text)) })
}
