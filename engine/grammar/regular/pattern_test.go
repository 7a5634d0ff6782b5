package regular

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

func search(t *testing.T, pattern string) (*Space, Expr) {
	t.Helper()
	p, err := ParsePattern(pattern)
	if err != nil {
		t.Fatal(err)
	}
	s := NewSpace(0)
	e, err := p.Search(s, func(set []RuneRange) Expr { return s.Runes(set...) })
	if err != nil {
		t.Fatal(err)
	}
	return s, e
}

func TestPatterns(t *testing.T) {
	for _, c := range []struct{ pattern, yes, no string }{
		{`a`, "a ba ab xax", " b é"},
		{`^a`, "a ab", "ba"},
		{`a$`, "a ba", "ab"},
		{`^a|b$`, "a ab b cb ax", "cbc ba"},
		{`^(a|b$)`, "a ac b", "bc cb"},
		{`^$`, "", "a"},
		{``, " a", ""},
		{`(^|x)a`, "a xa yxa", "ya"},
		{`(^x?)a`, "a xa", "yxa ya"},
		{`a(?=b)`, "ab xab", "a ac"},
		{`^(?!ab).*$`, "a abab"[:1] + " ba", "ab abc"},
		{`^((?!ab).)*$`, "a ba aab"[:4], "ab xab xabx"},
		{`^(?!.*ab)^(.*b.*)$`, "b cb", "ab a xabx"},
		{`^(?=.*[0-9])(?=.*[a-z]).{3,}$`, "a12 1ab", "123 abc a1"},
		{`(?!a)`, " a b", ""},
		{`^\d{2,3}?$`, "12 123", "1 1234 a1 ٣٣"},
		{`^\w\W\s\S$`, "a-\u00a0b _é\nb", "ab\nc"},
		{`^[^\d\-a-c]$`, "d é", "1 - b"},
		{`^[\w-.]$`, "a - .", "+"},
		{`^[a-]$`, "a -", "b"},
		{`^.$`, "a é 𝒳", "\n \u2028 ab"},
		{`^[\s\S]$`, "a\n"[:1] + " \n", "ab"},
		{`^\u{1D4B3}\uD835\uDCB3\x41\cA\0$`, "𝒳𝒳A\x01\x00", "𝒳A"},
		{`^\p{L}\p{Lu}\P{L}\p{Script=Greek}$`, "éÀ1α", "1À1α"},
		{`^\$\.\-\/\@$`, "$.-/@", "$.-/"},
		{`^{.*}$`, "{} {a}", "{"},
		{`^x{a}$`, "x{a}", "xa"},
		{`^(?:ab){2}$`, "abab", "ab"},
		{`^(?<name>a)$`, "a", "b"},
		{`^([]a]*)?$`, "", "a a]"},
		{`[^]`, "a", ""},
		{`^(a?){3}$`, " a aa aaa", "aaaa"},
		{`^(?:(?!b)[a-c]){2}$`, "aa ac", "ab ba bb"},
		{`^(?!(if|else)$)[a-z]+$`, "ifx a elsee", "if else"},
	} {
		s, e := search(t, c.pattern)
		for _, text := range strings.Split(c.yes, " ") {
			if !s.Matches(e, text) && (text != "" || c.yes == "" || strings.HasPrefix(c.yes, " ")) {
				t.Errorf("%s does not match %q", c.pattern, text)
			}
		}
		for _, text := range strings.Split(c.no, " ") {
			if s.Matches(e, text) && (text != "" || strings.HasPrefix(c.no, " ")) {
				t.Errorf("%s matches %q", c.pattern, text)
			}
		}
	}
}

// TestWhole: a pattern matches a whole text, with and without anchors.
func TestWhole(t *testing.T) {
	for _, c := range []struct{ pattern, yes, no string }{
		{`a|bc`, "a bc", "ab abc b"}, {`^(yes|no)$`, "yes no", "yess n"}, {`^a|b$`, "a b", "ab aa"},
		{`(?!x)[a-z]+`, "a ax", "xa x"}, {`a$`, "a", "ba"}, {`^a`, "a", "ab"},
	} {
		p, err := ParsePattern(c.pattern)
		if err != nil {
			t.Fatal(err)
		}
		s := NewSpace(0)
		e, err := p.Whole(s, func(set []RuneRange) Expr { return s.Runes(set...) })
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range strings.Fields(c.yes) {
			if !s.Matches(e, text) {
				t.Errorf("%s does not match %q", c.pattern, text)
			}
		}
		for _, text := range strings.Fields(c.no) {
			if s.Matches(e, text) {
				t.Errorf("%s matches %q", c.pattern, text)
			}
		}
	}
}

func TestPatternErrors(t *testing.T) {
	for _, c := range []struct {
		pattern, reason string
		offset          int
	}{
		{`a\b`, "word boundary", 1}, {`(a)\1`, "backreferences", 3}, {`(?<=a)b`, "lookbehind", 0},
		{`(?i)a`, "kind of group", 0}, {`a**`, "quantifier", 3}, {`*a`, "nothing is before", 0},
		{`(a`, "unmatched (", 0}, {`ab)`, "unmatched )", 2}, {`[a`, "unmatched [", 0},
		{`[b-a]`, "not in order", 1}, {`a{3,2}`, "not in order", 1}, {`\Z`, "no meaning", 0},
		{`\`, "at the end", 0}, {`\p{Foo}`, "not known", 0}, {`((a{1000}){1000}){1000}`, "counts", 0},
		{strings.Repeat("(", 60) + strings.Repeat(")", 60), "nested", 50},
		{`(?:^a|b)*c`, "unlimited", 0}, {`^+`, "assertion", 0}, {"\xff", "UTF-8", 0},
		{strings.Repeat("a", 10_000), "bytes", 0}, {`(?:(?=a)b){1000}`, "large count", 0},
	} {
		p, err := ParsePattern(c.pattern)
		if err == nil {
			s := NewSpace(0)
			_, err = p.Search(s, func(set []RuneRange) Expr { return s.Runes(set...) })
		}
		var failed *PatternError
		if !errors.As(err, &failed) || !strings.Contains(failed.Reason, c.reason) ||
			failed.Offset != c.offset {
			t.Errorf("%.30s: got error %v, expected one with %q at %d", c.pattern, err, c.reason,
				c.offset)
		}
	}
}

// FuzzPattern compares with package regexp where both know the syntax.
func FuzzPattern(f *testing.F) {
	for _, pattern := range []string{`^a`, `a|b$`, `(^|x)a*`, `[^a-c]{1,2}`, `(a|^b)c?$`, `^$|a`,
		`(a$|b)+`, `x*(^a)?`, `\.[b-]`, `((^a|b)c){2}`} {
		f.Add(pattern, "abc")
	}
	f.Fuzz(func(t *testing.T, pattern, text string) {
		if len(pattern) > 40 || len(text) > 20 || !utf8.ValidString(text) ||
			strings.ContainsAny(pattern, `\?[`) || strings.Contains(pattern, "{0") {
			return // these have meanings of their own in regexp
		}
		p, err := ParsePattern(pattern)
		if err != nil {
			return
		}
		want, err := regexp.Compile(fmt.Sprintf("(?s:%s)", pattern))
		if err != nil || strings.Contains(pattern, ".") &&
			strings.ContainsAny(text, "\n\r\u2028\u2029") {
			return
		}
		s := NewSpace(200_000)
		e, err := p.Search(s, func(set []RuneRange) Expr { return s.Runes(set...) })
		if err != nil {
			return
		}
		if got := s.Matches(e, text); got != want.MatchString(text) && !s.Full() {
			t.Errorf("%q in %q: got %v", pattern, text, got)
		}
	})
}
