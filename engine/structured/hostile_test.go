package structured

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestHostile compiles sources that are as long and as deep as they may be, and computes a mask.
// Without the limits, some of them would take minutes.
func TestHostile(t *testing.T) {
	list := func(n int, format string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	chain := "root ::= r0\n"
	for i := range 4_500 {
		chain += fmt.Sprintf("r%d ::= \"a\" r%d r%d\n", i, i+1, i+1)
	}
	for _, c := range []struct {
		name   string
		kind   Kind
		source string
	}{
		{"rules", Grammar, "root ::= r0\n" + list(9_000, "r%d ::= \"a\"\n")},
		{"choices", Grammar, "root ::= \"x\"" + list(12_000, " | \"a%d\"")},
		{"a sequence", Grammar, "root ::= " + strings.Repeat("[a-z] ", 21_000)},
		{"a literal", Grammar, "root ::= \"" + strings.Repeat("a", 130_000) + "\""},
		{"counts", Grammar, "root ::= " + strings.Repeat("(", 150) + "[a-z]" +
			strings.Repeat("{2,9999})", 150)},
		{"doubling", Grammar, chain + "r4500 ::= \"b\"\n"},
		{"options", Grammar, "root ::= " + strings.Repeat("\"a\"? ", 21_000)},
		{"classes", Grammar, "root ::= " + list(5_000, "[\\U%08x-\\U0010FFFF] ")},
		{"optional letters", Regex, strings.Repeat("a?", 65_000)},
		{"alternatives", Regex, "x" + list(17_000, "|a%d")},
		{"groups", Regex, strings.Repeat("(", 500) + "a" + strings.Repeat("+)", 500)},
		{"lookaheads", Regex, strings.Repeat("(?=.*a)", 18_000) + "a"},
		{"nested counts", Regex, "(((a{1,1000}){1,1000}){1,1000}){1,1000}"},
		{"any texts", Regex, strings.Repeat(".*a", 43_000)},
		{"texts", Choice, `["x"` + list(9_000, `,"aaaaa%d"`) + "]"},
	} {
		begin := time.Now()
		o := Output{Kind: c.kind, Source: c.source}
		_, err := o.Compile(nil)
		compiled := time.Since(begin)
		if err == nil {
			var a *Answer
			if a, err = testCompiler().NewAnswer(&o); err == nil {
				_, err = a.Mask()
			}
		}
		took := time.Since(begin)
		t.Logf("%s, %d bytes: compiled in %v, with a mask in %v: %.80v", c.name, len(c.source),
			compiled.Round(time.Millisecond), took.Round(time.Millisecond), err)
		if took > 10*time.Second {
			t.Errorf("%s: it took %v", c.name, took)
		}
	}
}
