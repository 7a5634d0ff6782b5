package hub

// What a download has created. Other tools keep their files in the same cache, finished or not, and
// people edit the files of a snapshot. So each download records what it creates, and discard
// removes nothing else.

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// created is a line of the record of an unfinished download. It has one of the fields.
type created struct {
	Etag string `json:"etag,omitempty"` // of a blob that the download began
	Link string `json:"link,omitempty"` // path in the snapshot
}

const (
	recordSuffix = ".headroom"
	// maxRecordBytes is more than the record of the largest repository needs.
	maxRecordBytes = 16 << 20
)

// record returns the path of the record of what downloads of a commit have created.
func (l layout) record(commit string) string {
	return filepath.Join(l.cache, ".locks", l.name, commit+recordSuffix)
}

// noteCreated adds a line to the record.
func (l layout) noteCreated(commit string, c created) error {
	at := l.record(commit)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	line, err := json.Marshal(c)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(at, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	_, err = file.Write(append(line, '\n'))
	return errors.Join(err, file.Close())
}

// created returns the blobs and links that unfinished downloads of a commit have created. For "",
// it returns the blobs of all commits.
func (l layout) created(commit string) (etags, links map[string]bool) {
	etags, links = map[string]bool{}, map[string]bool{}
	records := []string{l.record(commit)}
	if commit == "" {
		records = nil
		entries, _ := os.ReadDir(filepath.Dir(l.record("")))
		for _, e := range entries {
			if e.Type().IsRegular() && strings.HasSuffix(e.Name(), recordSuffix) {
				records = append(records, filepath.Join(filepath.Dir(l.record("")), e.Name()))
			}
		}
	}
	for _, at := range records {
		file, err := os.Open(at)
		if err != nil {
			continue
		}
		lines := bufio.NewScanner(io.LimitReader(file, maxRecordBytes))
		for lines.Scan() {
			var c created
			if json.Unmarshal(lines.Bytes(), &c) != nil {
				continue // a crash may leave half a line
			}
			if c.Etag != "" && parseEtag(c.Etag) == c.Etag {
				etags[c.Etag] = true
			}
			if c.Link != "" && commit != "" && filepath.IsLocal(c.Link) {
				links[c.Link] = true
			}
		}
		_ = file.Close()
	}
	return etags, links
}

// discard removes what unfinished downloads of a commit have created: links of its snapshot, if no
// ref names it, incomplete blobs, and blobs to which no snapshot links. If commit is "", it removes
// only incomplete blobs, of all commits. It keeps a blob that another program is writing.
func (l layout) discard(commit string) error {
	etags, links := l.created(commit)
	root, err := os.OpenRoot(l.dir()) // no link in it leads out
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close()
	whole := commit == "" || l.hasRef(commit)
	if !whole {
		for name := range links {
			l.unlink(root, path.Join("snapshots", commit, name))
		}
		_ = root.Remove(path.Join("snapshots", commit))
	}
	inUse := linked(l.snapshots())
	var failed error
	for etag := range etags {
		lock, err := l.lockBlob(etag)
		if err != nil {
			continue // another program writes it
		}
		remove := func(name string) {
			if info, err := root.Lstat(name); err == nil && info.Mode().IsRegular() {
				failed = errors.Join(failed, root.Remove(name))
			}
		}
		remove("blobs/" + etag + incompleteSuffix)
		if !whole && !inUse[etag] {
			remove("blobs/" + etag)
		}
		lock.Unlock()
	}
	if commit != "" {
		_ = os.Remove(l.record(commit))
	}
	for _, name := range []string{"blobs", "snapshots", "refs"} {
		_ = root.Remove(name) // fails unless it is empty
	}
	_ = os.Remove(l.dir())
	return failed
}

// unlink removes a link to a blob, and the folders of the snapshot that are then empty.
func (l layout) unlink(root *os.Root, name string) {
	target, err := root.Readlink(name)
	if err != nil || path.Join(path.Dir(name), target) != path.Join("blobs", path.Base(target)) {
		return
	}
	if root.Remove(name) != nil {
		return
	}
	for dir := path.Dir(name); strings.Count(dir, "/") > 1; dir = path.Dir(dir) {
		_ = root.Remove(dir) // fails unless it is empty
	}
}
