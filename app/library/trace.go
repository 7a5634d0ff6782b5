package library

// Resolving symbolic links. Unlike filepath.EvalSymlinks, trace also returns the paths that the
// result depends on, so that they can be watched: the links on the path, and missing files.

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// trail is a resolved path.
type trail struct {
	real string      // path without links; "" if it does not exist
	info fs.FileInfo // of real; nil if it does not exist
	// depends are the real paths of the links that were followed, and of a missing file. While
	// these paths, real and their parent folders are unchanged, the path resolves to the same file.
	depends []string
}

// maxLinks is the number of links after which a path counts as a loop, as in the kernel.
const maxLinks = 40

// trace resolves path relative to a folder; the parameter from is the real path of that folder.
func trace(from, path string) trail {
	var t trail
	at, rest := from, split(path)
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		if name == ".." {
			at = filepath.Dir(at) // without links in the path, this is the parent folder
			continue
		}
		next := filepath.Join(at, name)
		info, err := os.Lstat(next)
		if err != nil {
			t.depends = append(t.depends, next)
			return t
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			at, t.info = next, info
			continue
		}
		t.depends = append(t.depends, next)
		target, err := os.Readlink(next)
		if links++; err != nil || links > maxLinks {
			return trail{depends: t.depends}
		}
		if filepath.IsAbs(target) {
			at = string(filepath.Separator)
		}
		rest = append(split(target), rest...)
	}
	info, err := os.Lstat(at) // t.info may be stale after a link that ends in ".."
	if err != nil {
		return trail{depends: append(t.depends, at)}
	}
	t.real, t.info = at, info
	return t
}

// split returns the names in a path, without empty ones and ".".
func split(path string) []string {
	var names []string
	for name := range strings.SplitSeq(path, string(filepath.Separator)) {
		if name != "" && name != "." {
			names = append(names, name)
		}
	}
	return names
}
