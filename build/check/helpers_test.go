package check

import (
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/fstest"
)

// repository returns the tree that the rules apply to, this checkout.
func repository() fs.FS { return os.DirFS("../..") }

// repositoryGo returns the repository's Go files.
func repositoryGo(t *testing.T) []goFile {
	t.Helper()
	files := parsed(t, repository())
	if len(files) == 0 {
		t.Fatal("found no Go file in the repository: the rules would pass on nothing")
	}
	return files
}

func repositoryText(t *testing.T, name string) string {
	t.Helper()
	text, err := fs.ReadFile(repository(), name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// parsed returns the Go files of a tree.
func parsed(t *testing.T, tree fs.FS) []goFile {
	t.Helper()
	files, err := readGo(tree)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// treeOf returns a tree with these texts, by path.
func treeOf(files map[string]string) fstest.MapFS {
	tree := fstest.MapFS{}
	for name, text := range files {
		tree[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return tree
}

// fileCase is a tree of one file, and the result of a rule for it.
type fileCase struct {
	name, file, text string
	want             string // see expect
}

// runCases runs a rule over the tree of each case.
func runCases(t *testing.T, cases []fileCase, rule func(*testing.T, fs.FS) []string) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			expect(t, rule(t, treeOf(map[string]string{c.file: c.text})), c.want)
		})
	}
}

// report fails the test with every breach.
func report(t *testing.T, breaches []string) {
	t.Helper()
	for _, breach := range breaches {
		t.Error(breach)
	}
}

// expect fails the test unless there is exactly one breach and it contains want, or, if want is "",
// unless there is none.
func expect(t *testing.T, breaches []string, want string) {
	t.Helper()
	switch {
	case want == "" && len(breaches) == 0:
	case want != "" && len(breaches) == 1 && strings.Contains(breaches[0], want):
	default:
		t.Errorf("breaches %q, want one with %q (none if empty)", breaches, want)
	}
}
