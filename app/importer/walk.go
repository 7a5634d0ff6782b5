package importer

// The files of a model's folder that an import copies. Links are followed within the folder, and
// from a snapshot of Hugging Face's cache to its blobs, whose names are checksums. A link to
// anywhere else is refused, because it may lead to files that are not the model's.

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// source is a file to copy.
type source struct {
	rel     string // path in the folder, and in the copy
	path    string // path of the file, links resolved
	size    int64
	changed time.Time
	sha256  string // hexadecimal checksum from the name of a blob; "": not known
}

// Limits of a model's folder.
const (
	maxDepth = 4
	maxFiles = 10_000
)

// walker collects files.
type walker struct {
	real  string // the folder, links resolved
	base  string // links must stay in it: the folder, or the repository around a snapshot
	files []source
}

// walk returns the files of a folder, links resolved, sorted by path. It skips hidden files and
// unfinished downloads.
func walk(dir string) ([]source, error) {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, unreadable(err)
	}
	w := &walker{real: real, base: real}
	if isHubSnapshot(real) {
		w.base = filepath.Dir(filepath.Dir(real))
	}
	return w.files, w.folder("", 0)
}

// isHubSnapshot reports whether real is .../models--org--name/snapshots/<commit>.
func isHubSnapshot(real string) bool {
	up := filepath.Dir(real)
	return filepath.Base(up) == "snapshots" &&
		strings.HasPrefix(filepath.Base(filepath.Dir(up)), "models--")
}

func unreadable(err error) error {
	return refusal("The model cannot be read", err.Error(), "Check the permissions of its folder.")
}

func (w *walker) folder(rel string, depth int) error {
	entries, err := os.ReadDir(filepath.Join(w.real, rel))
	if err != nil {
		return unreadable(err)
	}
	for _, e := range entries {
		name := e.Name()
		if strings.HasPrefix(name, ".") || strings.HasSuffix(name, ".incomplete") ||
			strings.HasSuffix(name, ".part") {
			continue
		}
		if len(w.files) >= maxFiles {
			return refusal("The folder is too large to be a model",
				fmt.Sprintf("it has more than %d files", maxFiles),
				"Choose the model's own folder.")
		}
		at := filepath.Join(rel, name)
		switch kind := e.Type(); {
		case kind.IsDir():
			if depth+1 >= maxDepth {
				return refusal("The folder is nested too deeply to be a model",
					shown(at)+" has more folders", "Choose the model's own folder.")
			}
			err = w.folder(at, depth+1)
		case kind.IsRegular():
			err = w.file(at, filepath.Join(w.real, at))
		case kind&fs.ModeSymlink != 0:
			err = w.link(at)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) file(rel, path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return unreadable(err)
	}
	if !info.Mode().IsRegular() {
		return refusal(shown(rel)+" does not link to a file", "",
			"Link the model instead of copying it, or replace the link by its target.")
	}
	w.files = append(w.files,
		source{rel: rel, path: path, size: info.Size(), changed: info.ModTime(),
			sha256: blobSum(path)})
	return nil
}

func (w *walker) link(rel string) error {
	path, err := filepath.EvalSymlinks(filepath.Join(w.real, rel))
	if err != nil {
		return refusal("The model is incomplete", shown(rel)+" is a broken link",
			"Finish the download, or download the model again.")
	}
	if !strings.HasPrefix(path, w.base+string(filepath.Separator)) {
		return refusal("The model's folder has a link to a file outside it",
			shown(rel)+" links to "+shown(path),
			"Link the model instead of copying it, or replace the link by the file.")
	}
	return w.file(rel, path)
}

var blobName = regexp.MustCompile(`^[0-9a-f]{64}$`)

// blobSum returns the SHA-256 that names a blob of Hugging Face's cache; "" for other files.
func blobSum(path string) string {
	if name := filepath.Base(path); filepath.Base(filepath.Dir(path)) == "blobs" &&
		blobName.MatchString(name) {
		return name
	}
	return ""
}
