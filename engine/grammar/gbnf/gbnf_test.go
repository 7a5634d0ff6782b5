package gbnf

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"headroom/engine/grammar"
)

// jsonGrammar is JSON, as in RFC 8259.
const jsonGrammar = `
root   ::= value
value  ::= object | array | string | number | ("true" | "false" | "null") ws
object ::= "{" ws ( string ":" ws value ("," ws string ":" ws value)* )? "}" ws
array  ::= "[" ws ( value ("," ws value)* )? "]" ws
string ::= "\"" ( [^"\\\x7F\x00-\x1F] | "\\" (["\\bfnrt/] | "u" [0-9a-fA-F]{4}) )* "\"" ws
number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9]{1,3})? ws
ws     ::= | " " | "\n" [ \t]{0,20}  # one line break at most
`

func TestBuild(t *testing.T) {
	for _, c := range []struct {
		grammar  string
		yes, not []string // whole texts, and others
	}{
		{`root ::= "a"`, []string{"a"}, []string{"", "b", "aa"}},
		{jsonGrammar, []string{`{"a":[1, 2.5e-3, {"b":null}], "ü😀":"\n\u00e4"}`, `[]`, `true`, `-0`,
			"{\n  \"a\":1}"}, []string{`{a:1}`, `[1,]`, `"` + "\n" + `"`, `01`, `"\x"`, ``}},
		{"root ::= expr\nexpr ::= expr [+-] term | term\nterm ::= [0-9]+ | \"(\" expr \")\"",
			[]string{"1", "1+2-3", "((1)+2)"}, []string{"", "1+", "(1"}},
		{"root ::= (\"a\"\n | \"b\")+\n  # a comment\n\nother ::= root", []string{"a", "abab"},
			[]string{"", "c"}},
		{"root ::= item{2,3} [x]? | .{4}\nitem ::= \"ab\" | \"\\u00e4\"",
			[]string{"abab", "ababab", "ääx", "abäx", "xyzw", "ö€😀a"}, []string{"ab", "xyz"}},
		{`root ::= [^a-c\]^-]`, []string{"d", "é", "["}, []string{"a", "]", "^", "-", "dd"}},
		{"root ::= a | \"\"\na ::= \"x\" a \"y\" | \"xy\"", []string{"", "xy", "xxxyyy"},
			[]string{"x", "xxy"}},
		{"root ::= \"a\" |\n \"b\"", []string{"a", "b"}, []string{"ab"}},
	} {
		b := grammar.NewBuilder()
		start, err := Build(b, c.grammar)
		if err != nil {
			t.Errorf("%s: %v", c.grammar, err)
			continue
		}
		g, err := b.Compile(start)
		if err != nil {
			t.Errorf("%s: %v", c.grammar, err)
			continue
		}
		for i, text := range append(c.yes, c.not...) {
			m := g.NewMatcher()
			whole := m.AcceptBytes([]byte(text)) == len(text) && m.Complete()
			if whole != (i < len(c.yes)) {
				t.Errorf("%.30s: %q: got %t", c.grammar, text, whole)
			}
		}
	}
}

func TestErrors(t *testing.T) {
	for text, want := range map[string]string{
		``:                                 `line 1, column 1: there is no rule "root"`,
		`a ::= "b"`:                        `no rule "root"`,
		"root ::= b\nb ::= c":              `line 2, column 7: rule "c" is not defined`,
		`root ::= "a`:                      `line 1, column 10: the literal is not closed`,
		`root ::= [a`:                      `column 10: the class is not closed`,
		`root ::= (a`:                      `column 10: the group is not closed`,
		`root ::= "a"{3,2}`:                `column 13: the count 2 is smaller than 3`,
		`root ::= "a"{99999999}`:           `expected a count from 0 to 10000, got "99999999"`,
		`root ::= "a"{x}`:                  `got "x"`,
		`root ::= [z-a]`:                   `the range 'z'-'a' is empty`,
		`root ::= "\q"`:                    `column 11: the escape \q is not known`,
		`root ::= "\ud800"`:                `is no character`,
		`root = "a"`:                       `expected "::="`,
		"root ::= \"a\"\nroot ::= \"b\"":   `line 2, column 1: rule "root" is defined twice`,
		`root ::= <[1000]>`:                `tokens such as <[1000]> are not supported`,
		`root ::= "a" )`:                   `column 14: unexpected ')'`,
		"root ::= " + nested("(", 300):     `more than 200 groups`,
		`root ::= "a" ::= "b"`:             `unexpected ':'`,
		"root ::= a\na ::= b\nb ::= \"\\u": `expected 4 digits`,
	} {
		_, err := Build(grammar.NewBuilder(), text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: got %v, expected %q", text, err, want)
		}
	}
}

func nested(s string, n int) string { return strings.Repeat(s, n) }

func FuzzBuild(f *testing.F) {
	f.Add(jsonGrammar, `{"a":1}`)
	f.Add("root ::= root \"a\" | \"b\"", "baa")
	f.Fuzz(func(t *testing.T, text, answer string) {
		if len(text) > 500 || len(answer) > 100 {
			return
		}
		b := grammar.NewBuilder()
		start, err := Build(b, text)
		if err != nil {
			return
		}
		if g, err := b.Compile(start); err == nil {
			m := g.NewMatcher()
			m.AcceptBytes([]byte(answer))
			m.Ended()
		}
	})
}

// TestLongCycles reads rules in a chain, of which each also refers to the first.
func TestLongCycles(t *testing.T) {
	source := strings.Builder{}
	source.WriteString("root ::= r0\n")
	const n = 9000
	for i := range n {
		fmt.Fprintf(&source, "r%d ::= r%d | r0 \"x\"\n", i, i+1)
	}
	fmt.Fprintf(&source, "r%d ::= \"a\"\n", n)
	began := cpuTime(t)
	b := grammar.NewBuilder()
	start, err := Build(b, source.String())
	if err != nil {
		t.Fatal(err)
	}
	limit := 400 * time.Millisecond // usually 20
	if testing.Short() {            // under the race detector
		limit *= 10
	}
	if took := cpuTime(t) - began; took > limit {
		t.Errorf("it took %v", took)
	}
	g, err := b.Compile(start)
	if err != nil {
		t.Fatal(err)
	}
	if m := g.NewMatcher(); m.AcceptBytes([]byte("axx")) != 3 || !m.Complete() {
		t.Error("the text is not allowed")
	}
}

// cpuTime returns the processor time of this process.
func cpuTime(t *testing.T) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
