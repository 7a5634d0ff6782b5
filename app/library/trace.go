package library

// Where a path leads, found by hand, link by link. filepath.EvalSymlinks gives the same answer, but
// a watcher also has to know what would change it: the links on the way, and what is missing.

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// trail is a path that was followed.
type trail struct {
	real string      // where it leads, without links; "" when nowhere
	info fs.FileInfo // of what is there; nil when nothing is
	// hinges are the real paths of the links that were followed, and of what is missing: while they
	// and real stay what they are, and the folders around them, the path leads where it did.
	hinges []string
}

// mostLinks is what the kernels follow, about: more is a loop.
const mostLinks = 40

// trace follows path, which is relative to the folder at from, a real path.
func trace(from, path string) trail {
	var t trail
	at, rest := from, split(path)
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		if name == ".." {
			at = filepath.Dir(at) // at is real, so this is its parent
			continue
		}
		next := filepath.Join(at, name)
		info, err := os.Lstat(next)
		if err != nil {
			t.hinges = append(t.hinges, next)
			return t
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			at, t.info = next, info
			continue
		}
		t.hinges = append(t.hinges, next)
		target, err := os.Readlink(next)
		if links++; err != nil || links > mostLinks {
			return trail{hinges: t.hinges}
		}
		if filepath.IsAbs(target) {
			at = string(filepath.Separator)
		}
		rest = append(split(target), rest...)
	}
	info, err := os.Lstat(at) // t.info is of another place after a link that ends in ".."
	if err != nil {
		return trail{hinges: append(t.hinges, at)}
	}
	t.real, t.info = at, info
	return t
}

// split cuts a path into its names, without empty ones and ".".
func split(path string) []string {
	var names []string
	for name := range strings.SplitSeq(path, string(filepath.Separator)) {
		if name != "" && name != "." {
			names = append(names, name)
		}
	}
	return names
}
