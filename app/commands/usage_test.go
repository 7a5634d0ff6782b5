package commands

import (
	"strings"
	"testing"
)

// TestWrongNumbers: what is no number is refused in words of people, not of Go's types.
func TestWrongNumbers(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"serve --context many", `--context: expected a whole number, got "many"`},
		{"serve --context -1",
			`--context: expected a whole number, got "-1"; perhaps try --context="-1"?`},
		{"run --temperature hot x", `--temperature: expected a number, got "hot"`},
	} {
		code, _, errOut := headroom("", strings.Fields(c.line)...)
		if code != int(exitUsage) || !strings.HasPrefix(errOut, "headroom: "+c.want+"\n") {
			t.Errorf("%s: exit %d, %s", c.line, code, errOut)
		}
	}
}
