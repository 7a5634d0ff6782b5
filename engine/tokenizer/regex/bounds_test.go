package regex

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestLinear searches long texts with expressions for which backtracking takes exponential or
// quadratic time, and checks that the work grows with the length alone.
func TestLinear(t *testing.T) {
	long := func(unit, end string, n int) string { return strings.Repeat(unit, n) + end }
	for _, c := range []struct{ pattern, unit, end string }{
		{`(a+)+$`, "a", "!"},
		{`(a|aa)+$`, "a", "!"},
		{`(a*)*b`, "a", ""},
		{`(?:x+x+)+y`, "x", ""},
		{`a*b|a`, "a", ""},
		{`a*?b|a`, "a", ""},
		{`a*a*a*a*b`, "a", ""},
		{`(?:a|b|ab)*c`, "ab", ""},
		{`(?:a?){50}b`, "a", ""},
		{`a{0,500}b`, "a", ""},
		{`a++b|a`, "a", ""},
		{`\s++$`, " ", "x"},
		{`\s+(?!\S)|\s*x`, " ", "y"},
		{`(?=a*b)a`, "a", "b"},
		{`(?=a*b)a`, "a", "c"},
		{`a(?!a*b)`, "a", "b"},
		{`(?<=^a*)a`, "a", ""},
		{`(?:(?:a*b?)*c?)*d`, "ab", ""},
		{`(?:(?:aa|a)(?:a|aa)){1,20}z`, "a", ""},
	} {
		re, err := Compile(c.pattern)
		if err != nil {
			t.Fatal(err)
		}
		work := func(n int) int {
			m := re.NewMatcher()
			m.Reset(long(c.unit, c.end, n), nil)
			for _, _, ok := m.Next(); ok; _, _, ok = m.Next() {
			}
			if m.Err() != nil {
				t.Fatalf("%s: %v", c.pattern, m.Err())
			}
			return m.work
		}
		const n = 20_000
		if got, limit := work(n), 20*n*len(c.unit)*size(re); got > limit {
			t.Errorf("%s: %d steps for %d repetitions of %q, expected at most %d", c.pattern, got,
				n, c.unit, limit)
		}
		if one, two := work(n), work(2*n); two > one*5/2 {
			t.Errorf("%s: %d steps for a text twice as long as one with %d", c.pattern, two, one)
		}
	}
}

// size returns the number of instructions, in which a counted loop counts as its repetitions.
func size(re *Regexp) int {
	n := len(re.code) + 4
	for _, in := range re.code {
		if in.code == codeLoop && in.max != unlimited {
			n += int(in.max)
		}
	}
	for _, l := range re.looks {
		n += len(l.code)
	}
	return n
}

// TestStops checks that a search ends soon after stop returns an error.
func TestStops(t *testing.T) {
	re, err := Compile(`(?:a|b|ab)*c`)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	m := re.NewMatcher()
	m.Reset(strings.Repeat("ab", 200_000), func() error { cancel(); return ctx.Err() })
	if _, _, ok := m.Next(); ok || !errors.Is(m.Err(), context.Canceled) || m.work > 2*checkSteps {
		t.Errorf("matched %v, error %v after %d steps", ok, m.Err(), m.work)
	}
}

// TestScratchIsBounded checks that a search for which the memo would be too large ends with an
// error, and that a Matcher drops large buffers.
func TestScratchIsBounded(t *testing.T) {
	re, err := Compile(`(?:a|b|ab)*c`)
	if err != nil {
		t.Fatal(err)
	}
	m := re.NewMatcher()
	m.Reset(strings.Repeat("ab", 8<<20), nil)
	if _, _, ok := m.Next(); ok || !errors.Is(m.Err(), ErrTooComplex) {
		t.Errorf("matched %v, error %v", ok, m.Err())
	}
	m.Reset("abc", nil)
	if _, to, ok := m.Next(); !ok || to != 3 {
		t.Error("no match after an error")
	}
	if kept := m.memo.bytes + cap(m.stack)*frameBytes; kept > 2*keptBytes {
		t.Errorf("%d bytes are kept", kept)
	}
}

// TestLimits checks that an expression over a limit or outside the syntax is refused at once, with
// an error that names the reason.
func TestLimits(t *testing.T) {
	for _, c := range []struct{ pattern, want string }{
		{strings.Repeat("(", 200_000) + strings.Repeat(")", 200_000), "the limit is 16384"},
		{strings.Repeat("(", 8000) + strings.Repeat(")", 8000), "nested deeper than 100"},
		{strings.Repeat("[", 8000) + strings.Repeat("]", 8000), "nested deeper than 100"},
		{"a" + strings.Repeat("*", 8000), "nested deeper than 100"},
		{strings.Repeat("(?i)", 4000), "nested deeper than 100"},
		{`a{1001}`, "above the limit of 1000"},
		{`a{99999999999999999999}`, "above the limit of 1000"},
		{`(?:(?:ab){1000}){1000}`, "more than 1500 steps for each character"},
		{`(?:a{0,1000}){0,1000}b`, "more than 1500 steps for each character"},
		{`(?:||||||||||||||||||||){200}`, "more than 1500 steps for each character"},
		{strings.Repeat(`(?=(?:a?){300}b)`, 8), "more than 1500 steps for each character"},
		{`(?:(?:(?:){1000}){1000}){1000}`, "repetitions are too large"},
		{strings.Repeat(`(?=ab)`, 20), "more than 16 lookarounds"},
		{`(a)\1`, `backreferences such as \1 are not supported`},
		{`(?<n>a)\k<n>`, `backreferences such as \k are not supported`},
		{`(?>a+)b`, "atomic groups"},
		{`(?:ab)++`, "possessive repetition"},
		{`(?(1)a|b)`, "conditional groups"},
		{`(?~a)`, "absent expressions"},
		{`\X`, `\X is not supported`},
		{`\p{Emoji_Moods}`, `\p{Emoji_Moods} is not supported`},
		{"\xff", "not valid UTF-8"},
	} {
		start := time.Now()
		_, err := Compile(c.pattern)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.40s: error %.200v, expected %q", c.pattern, err, c.want)
		}
		if took := time.Since(start); took > time.Second {
			t.Errorf("%.40s took %v", c.pattern, took)
		}
		if err != nil && len(c.pattern) < 100 && !strings.Contains(err.Error(),
			fmt.Sprintf("%q", c.pattern)) {
			t.Errorf("%q does not name the expression %q", err, c.pattern)
		}
	}
}

// TestCost checks that a search takes no more steps for each character than the cost of its
// expression, and a little for the search itself. Expressions of known tokenizers cost little.
func TestCost(t *testing.T) {
	for _, c := range []struct{ pattern, unit string }{
		{`(?:a{0,35}){0,35}b`, "a"}, {`(?:a{0,650}){0,2}b`, "a"}, {`(?:a?){400}b`, "a"},
		{`(?:|a|||a){100}b`, "a"}, {`(?=(?:a?){300}b)a`, "a"}, {`(?:a*){400}b`, "a"},
		{`(?:(?:aa|a)(?:a|aa)){1,90}z`, "a"}, {`\p{N}{1,1000}x`, "1"},
		{`(?:a++|b){200}c`, "ab"},
	} {
		re, err := Compile(c.pattern)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.Repeat(c.unit, 5000)
		m := re.NewMatcher()
		m.Reset(text, nil)
		for _, _, ok := m.Next(); ok; _, _, ok = m.Next() {
		}
		if m.Err() != nil {
			t.Fatalf("%s: %v", c.pattern, m.Err())
		}
		if steps, most := m.work/len(text), 2*re.Cost()+4; steps > most {
			t.Errorf("%s: %d steps for each character, expected at most %d", c.pattern, steps, most)
		}
	}
	var all vectors
	readJSON(t, "testdata/vectors.json", &all)
	for name, v := range all.Known {
		if re, err := Compile(v.Pattern); err == nil && re.Cost() > 100 {
			t.Errorf("%s costs %d", name, re.Cost())
		}
	}
}

// FuzzRegex compiles and matches any expression: the work is bounded, and matches are in order.
func FuzzRegex(f *testing.F) {
	var all vectors
	readJSON(f, "testdata/vectors.json", &all)
	for _, v := range all.Small {
		f.Add(v.Pattern, "aab abc \n aaab")
	}
	f.Fuzz(func(t *testing.T, pattern, text string) {
		if len(pattern) > 200 || len(text) > 1000 {
			return
		}
		re, err := Compile(pattern)
		if err != nil {
			return
		}
		m := re.NewMatcher()
		for range 2 { // the second time with used memory
			m.Reset(text, nil)
			end := 0
			for from, to, ok := m.Next(); ok; from, to, ok = m.Next() {
				if from < end || to < from || to > len(text) {
					t.Fatalf("match [%d, %d) after %d in %d bytes", from, to, end, len(text))
				}
				end = to
			}
			if m.Err() != nil {
				t.Fatal(m.Err())
			}
			if limit := 20 * (len(text) + 1) * size(re); m.work > limit {
				t.Fatalf("%d steps, expected at most %d", m.work, limit)
			}
		}
	})
}
