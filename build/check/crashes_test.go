package check

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
	"testing"
)

var (
	namedPackage = regexp.MustCompile("`([a-z0-9/]+)`|\\b(Test[A-Z][A-Za-z0-9]*)")
	testFunction = regexp.MustCompile(`(?m)^func (Test[A-Z][A-Za-z0-9]*)\(`)
)

// checkFaults checks the tables of app/worker/CRASHES.md: the last cell of a row names tests of
// packages, and each must exist.
func checkFaults(tree fs.FS, document string) []string {
	var breaches []string
	rows := 0
	for line := range strings.Lines(document) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 4 || strings.HasPrefix(cells[0], "---") ||
			strings.TrimSpace(cells[3]) == "test" {
			continue
		}
		rows++
		where, tests := "", 0
		for _, m := range namedPackage.FindAllStringSubmatch(cells[3], -1) {
			if m[1] != "" {
				where = m[1]
				continue
			}
			tests++
			if !hasTestIn(tree, where, m[2]) {
				breaches = append(breaches, fmt.Sprintf("CRASHES.md names %s, which %s lacks", m[2],
					where))
			}
		}
		if tests == 0 {
			breaches = append(breaches, "CRASHES.md has no test in the row of"+cells[0])
		}
	}
	if rows == 0 {
		breaches = append(breaches, "CRASHES.md has no rows")
	}
	return sorted(breaches)
}

// hasTestIn reports whether a package has a test of this name.
func hasTestIn(tree fs.FS, dir, name string) bool {
	files, _ := fs.Glob(tree, path.Join(dir, "*_test.go"))
	for _, file := range files {
		text, err := fs.ReadFile(tree, file)
		if err != nil {
			continue
		}
		for _, m := range testFunction.FindAllStringSubmatch(string(text), -1) {
			if m[1] == name {
				return true
			}
		}
	}
	return false
}

func TestFaults(t *testing.T) {
	report(t, checkFaults(repository(), repositoryText(t, "app/worker/CRASHES.md")))

	tree := treeOf(map[string]string{"a/b/c_test.go": "package b\nfunc TestX(t *testing.T) {}\n"})
	head := "| fault | moment | promise | test |\n|---|---|---|---|\n"
	expect(t, checkFaults(tree, head+"| x | y | z | `a/b` TestX |\n"), "")
	expect(t, checkFaults(tree, head+"| x | y | z | `a/b` TestX, TestY |\n"), "names TestY")
	expect(t, checkFaults(tree, head+"| x | y | z | `a/c` TestX |\n"), "which a/c lacks")
	expect(t, checkFaults(tree, head+"| x | y | z | |\n"), "no test in the row")
	expect(t, checkFaults(tree, ""), "no rows")
}
