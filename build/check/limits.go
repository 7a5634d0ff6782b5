package check

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
)

// The rule for tables of limits: each row names a constant and a test that exist.

var (
	limitConstant = regexp.MustCompile("^`([a-z0-9/]+)\\.([A-Za-z0-9]+)`$")
	limitTest     = regexp.MustCompile("`(Test[A-Za-z0-9_]+)`")
	testOfTree    = regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9_]+)\(`)
)

// limitColumns are the columns of a table of limits.
const limitColumns = "| What | Limit | Constant | Error | Test |"

// checkLimits checks the tables of limits in a document: each row has a constant, an error and
// tests. The constant is written as its package's folder, a dot and its name.
func checkLimits(tree fs.FS, document string) ([]string, error) {
	text, err := fs.ReadFile(tree, document)
	if err != nil {
		return nil, err
	}
	tests, err := testFunctions(tree)
	if err != nil {
		return nil, err
	}
	var breaches []string
	rows, inTable := 0, false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if !inTable || line == "" {
			inTable = line == limitColumns
			continue
		}
		if strings.HasPrefix(line, "|---") {
			continue
		}
		rows++
		for _, why := range limitRow(tree, line, tests) {
			breaches = append(breaches, fmt.Sprintf("%s: %s: %s", document, line, why))
		}
	}
	if rows == 0 {
		breaches = append(breaches, fmt.Sprintf("%s has no table with the columns %s", document,
			limitColumns))
	}
	return breaches, nil
}

// limitRow returns what is wrong with a row.
func limitRow(tree fs.FS, line string, tests map[string]bool) (wrong []string) {
	cells := strings.Split(strings.Trim(line, "|"), "|")
	if len(cells) != strings.Count(limitColumns, "|")-1 {
		return []string{"expected five columns"}
	}
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	if m := limitConstant.FindStringSubmatch(cells[2]); m == nil {
		wrong = append(wrong, "expected a constant such as `engine/server.maxBodyBytes`")
	} else if !hasConstant(tree, m[1], m[2]) {
		wrong = append(wrong, m[1]+" has no constant "+m[2])
	}
	if cells[3] == "" {
		wrong = append(wrong, "the error is missing")
	}
	named := limitTest.FindAllStringSubmatch(cells[4], -1)
	if len(named) == 0 {
		wrong = append(wrong, "the test is missing")
	}
	for _, m := range named {
		if !tests[m[1]] {
			wrong = append(wrong, "there is no test "+m[1])
		}
	}
	return wrong
}

// hasConstant reports whether a folder's Go files declare a constant, alone or in a group.
func hasConstant(tree fs.FS, dir, name string) bool {
	files, _ := fs.Glob(tree, path.Join(dir, "*.go")) // the pattern is valid
	declared := regexp.MustCompile(`(?m)^(?:const |\t+(?:const )?)` + name + `\b[^\n:(]* = `)
	for _, file := range files {
		if text, err := fs.ReadFile(tree, file); err == nil && declared.Match(text) {
			return true
		}
	}
	return false
}

// testFunctions returns the names of all test functions of the tree.
func testFunctions(tree fs.FS) (map[string]bool, error) {
	names := map[string]bool{}
	err := fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && skipped(name):
			return fs.SkipDir
		case !strings.HasSuffix(name, "_test.go"):
			return nil
		}
		text, err := fs.ReadFile(tree, name)
		for _, m := range testOfTree.FindAllStringSubmatch(string(text), -1) {
			names[m[1]] = true
		}
		return err
	})
	return names, err
}
