package commands

import (
	"strings"
	"testing"
)

// TestWrongNumbers: what is no number is refused in words of people, not of Go's types.
func TestWrongNumbers(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"serve --context many", `--context: expected a whole number, got "many"`},
		{"serve --context -1", "serve: --context is -1, expected 0 or more"},
		{"run --temperature hot x", `--temperature: expected a number, got "hot"`},
		{"machines remove", `expected "<name>"`},
	} {
		code, _, errOut := headroom("", strings.Fields(c.line)...)
		if strings.Contains(errOut, "(rm") {
			t.Errorf("%s: the hint has aliases, so nobody can type it: %s", c.line, errOut)
		}
		if code != int(exitUsage) || !strings.HasPrefix(errOut, "headroom: "+c.want+"\n") {
			t.Errorf("%s: exit %d, %s", c.line, code, errOut)
		}
	}
}
