package library

// Listings of folders. A fresh scan reads them all. A Watcher runs the same scan, but keeps the
// listings of unchanged folders, so that a change costs only the folders that it affects.

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"headroom/engine/modelfile"
)

// Limits of a scan, so that a root that is a home folder does not stall it.
const (
	maxEntries  = 20_000 // of one folder
	maxReadings = 3      // attempts to follow a path that changes meanwhile
)

// maxFolders bounds the folders of one root. It is a variable for tests.
var maxFolders = 6_000

// file is a regular file of a listing, links resolved.
type file struct {
	name    string
	real    string
	size    int64 // -1: not read
	changed time.Time
}

// listing is the content of a folder.
type listing struct {
	path  string      // as the scan reached it
	real  string      // path with links resolved; "": there is no such folder
	info  fs.FileInfo // of the folder
	dirs  []string    // names of folders and links to folders, without hidden ones; sorted
	files []file      // sorted by name; with sizes if the folder looks like a model
	// depends has the real paths outside real that the listing depends on: links that were
	// followed, and their targets.
	depends []string
	memo    map[string]any // results of the function once
	// headerBytes is how many bytes of headers of weights have been read; see maxHeaderBytes.
	headerBytes int64

	from string // real folder where resolving the path started
	rest string // path relative to that folder
	scan int    // number of the last scan that used it
}

// folders reads and caches listings.
type folders struct {
	known map[string]*listing // by path
	scan  int                 // number of this scan
	left  int                 // number of folders that this root may still list
	full  bool                // this root has more folders
	notes []string            // sentences about what this scan could not search
	// cover watches the folder at a real path, and reports whether it added a watch; nil: nothing
	// is watched.
	cover func(dir string) (fresh bool)
	// The callback keep gets each new listing before its first use, and the callback drop gets each
	// removed listing; nil: not called.
	keep, drop func(*listing)
}

func newFolders() *folders { return &folders{known: map[string]*listing{}} }

// at returns the listing of an absolute path.
func (f *folders) at(path string) *listing {
	return f.listed(path, string(filepath.Separator), path)
}

// sub returns the listing of the folder name in l.
func (f *folders) sub(l *listing, name string) *listing {
	if l.real == "" {
		return &listing{path: filepath.Join(l.path, name)}
	}
	return f.listed(filepath.Join(l.path, name), l.real, name)
}

// listed returns the cached listing of path, or reads it. The parameter from is a real folder, and
// rest is the path relative to it. The listing is empty if the root has used up its maxFolders.
func (f *folders) listed(path, from, rest string) *listing {
	l, ok := f.known[path]
	if ok && l.from != from { // a link in the path has changed
		f.forget(l)
		ok = false
	}
	if !ok {
		if f.left <= 0 {
			f.full = true
			return &listing{path: path}
		}
		l = f.read(path, from, rest)
		f.known[path] = l
		if f.keep != nil {
			f.keep(l)
		}
	}
	if l.scan != f.scan {
		l.scan = f.scan
		f.left--
	}
	return l
}

// forget removes a listing, so that its next use reads the folder again.
func (f *folders) forget(l *listing) {
	delete(f.known, l.path)
	if f.drop != nil {
		f.drop(l)
	}
}

// prune removes the listings that the last scan did not use.
func (f *folders) prune() {
	for _, l := range f.known {
		if l.scan != f.scan {
			f.forget(l)
		}
	}
}

// read reads a folder. It watches everything that the listing depends on before it reads it, so
// that no change is missed.
func (f *folders) read(path, from, rest string) *listing {
	l := &listing{path: path, from: from, rest: rest}
	t := f.follow(from, rest)
	l.depends = t.depends
	if t.real == "" {
		return l
	}
	if !t.info.IsDir() {
		l.depends = append(l.depends, t.real)
		return l
	}
	if f.cover != nil && f.cover(t.real) {
		if t.info, _ = os.Lstat(t.real); t.info == nil || !t.info.IsDir() {
			l.depends = append(l.depends, t.real)
			return l
		}
	}
	l.real, l.info = t.real, t.info
	entries := readDir(l.real)
	withSizes := slices.ContainsFunc(entries,
		func(e fs.DirEntry) bool { return isModelFile(e.Name()) })
	for _, e := range entries {
		f.add(l, e, withSizes)
	}
	return l
}

// follow is like trace, but also watches everything that the result depends on. After it adds a
// watch, it traces again, because a change may have come before the watch.
func (f *folders) follow(from, rest string) trail {
	t := trace(from, rest)
	for range maxReadings {
		fresh := false
		if f.cover != nil {
			for _, path := range t.depends {
				fresh = f.cover(filepath.Dir(path)) || fresh
			}
			if t.real != "" && (len(t.depends) > 0 || !t.info.IsDir()) {
				// A folder's own watch reports its removal.
				fresh = f.cover(filepath.Dir(t.real)) || fresh
			}
		}
		if !fresh {
			break
		}
		t = trace(from, rest)
	}
	return t
}

// add adds an entry to the listing. withSizes also reads the sizes and times of complete files.
func (f *folders) add(l *listing, e fs.DirEntry, withSizes bool) {
	name := e.Name()
	if strings.HasPrefix(name, ".") {
		return
	}
	switch kind := e.Type(); {
	case kind.IsDir():
		l.dirs = append(l.dirs, name)
	case kind.IsRegular():
		one := file{name: name, real: filepath.Join(l.real, name), size: -1}
		if withSizes || isPart(name) {
			info, err := os.Lstat(one.real)
			if err != nil {
				return // removed since; the watch reports it
			}
			one.size, one.changed = info.Size(), info.ModTime()
		}
		l.files = append(l.files, one)
	case kind&fs.ModeSymlink != 0:
		t := f.follow(l.real, name)
		l.depends = append(l.depends, t.depends...)
		switch {
		case t.real == "":
			return
		case t.info.IsDir():
			// A link to l or a folder above it would show the models below it under second names.
			if !within(l.real, t.real) {
				l.dirs = append(l.dirs, name)
			}
		case t.info.Mode().IsRegular():
			l.files = append(l.files, file{name, t.real, t.info.Size(), t.info.ModTime()})
		}
		l.depends = append(l.depends, t.real)
	}
}

// readDir returns up to maxEntries entries, sorted by name. A folder that cannot be read is empty.
func readDir(path string) []fs.DirEntry {
	d, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer d.Close()
	entries, _ := d.ReadDir(maxEntries)
	slices.SortFunc(entries,
		func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries
}

func (l *listing) file(name string) (file, bool) {
	i, ok := slices.BinarySearchFunc(l.files, name,
		func(f file, name string) int { return strings.Compare(f.name, name) })
	if !ok {
		return file{}, false
	}
	return l.files[i], true
}

func (l *listing) hasFile(name string) bool { _, ok := l.file(name); return ok }

func (l *listing) hasDir(name string) bool { _, ok := slices.BinarySearch(l.dirs, name); return ok }

// matching returns the files whose names fit.
func (l *listing) matching(fits func(name string) bool) []file {
	var found []file
	for _, f := range l.files {
		if fits(f.name) {
			found = append(found, f)
		}
	}
	return found
}

// once computes a value from the listing and caches it with the listing.
func once[T any](l *listing, what string, find func() T) T {
	if known, ok := l.memo[what].(T); ok {
		return known
	}
	found := find()
	if l.memo == nil {
		l.memo = map[string]any{}
	}
	l.memo[what] = found
	return found
}

// parseFile computes a value from a file's content and caches it with the listing. A file that is
// longer than maxBytes, or cannot be read, counts as empty.
func parseFile[T any](l *listing, name string, maxBytes int64, parse func(text []byte) T) T {
	return once(l, "text of "+name, func() T {
		var text []byte
		if f, ok := l.file(name); ok {
			text = readSmall(f.real, maxBytes)
		}
		return parse(text)
	})
}

// readSmall returns the content of a regular file; nil if it is longer than maxBytes or unreadable.
func readSmall(path string, maxBytes int64) []byte {
	f, info, err := modelfile.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	if info.Size() > maxBytes {
		return nil
	}
	text, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	if err != nil || int64(len(text)) > maxBytes {
		return nil
	}
	return text
}
