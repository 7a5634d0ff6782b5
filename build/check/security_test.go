package check

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"
)

// checkNamedTests requires that each test that a document names exists, and that each row of the
// table of promises names one.
func checkNamedTests(tree fs.FS, document string) (breaches []string, err error) {
	text, err := fs.ReadFile(tree, document)
	if err != nil {
		return nil, err
	}
	tests, err := testFunctions(tree)
	if err != nil {
		return nil, err
	}
	_, promises, _ := strings.Cut(string(text), "\n| Against | Promise | Test |\n")
	promises, _, _ = strings.Cut(promises, "\n\n")
	if promises == "" {
		breaches = append(breaches, document+": there is no table of promises")
	}
	for line := range strings.Lines(promises) {
		if !strings.HasPrefix(line, "|---") && !limitTest.MatchString(line) {
			breaches = append(breaches,
				fmt.Sprintf("%s: no test shows: %s", document, strings.TrimSpace(line)))
		}
	}
	for _, m := range limitTest.FindAllStringSubmatch(string(text), -1) {
		if !tests[m[1]] {
			breaches = append(breaches, fmt.Sprintf("%s: there is no test %s", document, m[1]))
		}
	}
	return breaches, nil
}

// TestSecurity: each promise of SECURITY.md is held by a test.
func TestSecurity(t *testing.T) {
	breaches, err := checkNamedTests(repository(), "SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	report(t, breaches)

	for row, want := range map[string]string{"| a | b | `TestA` |": "", "| a | b | |": "no test",
		"| a | b | `TestB` |": "there is no test TestB"} {
		breaches, err := checkNamedTests(treeOf(map[string]string{"a_test.go": "func TestA(",
			"S.md": "x\n| Against | Promise | Test |\n|---|---|---|\n" + row + "\n\ny"}), "S.md")
		if err != nil {
			t.Fatal(err)
		}
		expect(t, breaches, want)
	}
}
