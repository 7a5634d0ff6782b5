package check

import (
	"io/fs"
	"os"
	"testing"
)

// repository returns the tree that the rules apply to, this checkout.
func repository() fs.FS { return os.DirFS("../..") }

func repositoryGo(t *testing.T) []goFile {
	t.Helper()
	files, err := readGo(repository())
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatal("found no Go file in the repository: the rules would pass on nothing")
	}
	return files
}
