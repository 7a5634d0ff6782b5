package hub

// The layout of the cache, see huggingface.co/docs/hub/local-cache:
//
//	models--org--name/blobs/<etag>               content, by checksum
//	models--org--name/blobs/<etag>.incomplete    the beginning of a blob
//	models--org--name/snapshots/<commit>/<path>  links to blobs, named as in the repository
//	models--org--name/refs/<revision>            the commit of a branch or tag
//	.locks/models--org--name/<etag>.lock         locked by the writer of the blob
//	.locks/models--org--name/<commit>.headroom   what a download has created (created.go)

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"headroom/app/disk"
)

type layout struct {
	cache string
	name  string // models--org--name
}

func (c *Client) layout(id string) layout {
	return layout{c.options.Cache, "models--" + strings.ReplaceAll(id, "/", "--")}
}

func (l layout) dir() string                   { return filepath.Join(l.cache, l.name) }
func (l layout) blobs() string                 { return filepath.Join(l.dir(), "blobs") }
func (l layout) blob(etag string) string       { return filepath.Join(l.blobs(), etag) }
func (l layout) incomplete(etag string) string { return l.blob(etag) + incompleteSuffix }
func (l layout) snapshots() string             { return filepath.Join(l.dir(), "snapshots") }
func (l layout) snapshot(commit string) string { return filepath.Join(l.snapshots(), commit) }
func (l layout) lock(etag string) string {
	return filepath.Join(l.cache, ".locks", l.name, etag+".lock")
}

const incompleteSuffix = ".incomplete"

// link makes the snapshot's file a link to its blob. On a file system without links it moves the
// blob there, like other tools.
func (l layout) link(commit, path, etag string) error {
	at := filepath.Join(l.snapshot(commit), filepath.FromSlash(path))
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	target, err := filepath.Rel(filepath.Dir(at), l.blob(etag))
	if err != nil {
		return err
	}
	if now, err := os.Readlink(at); err == nil && now == target {
		return nil
	}
	if err := l.makeRoom(at, etag); err != nil {
		return err
	}
	if err := os.Symlink(target, at); err != nil {
		if moved := os.Rename(l.blob(etag), at); moved != nil {
			return errors.Join(err, moved)
		}
		return nil
	}
	return l.noteCreated(commit, created{Link: path})
}

// makeRoom removes a link at a snapshot's path, or a copy of the blob. It sets other files aside: a
// user may have edited them.
func (l layout) makeRoom(at, etag string) error {
	info, err := os.Lstat(at)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode()&fs.ModeSymlink != 0 || info.Mode().IsRegular() && same(at, l.blob(etag)) {
		return os.Remove(at)
	}
	return disk.Rename(at, fmt.Sprintf("%s.set-aside-%d", at, time.Now().UnixNano()))
}

// same reports whether two files have the same content.
func same(a, b string) bool {
	sums := [2][sha256.Size]byte{}
	for i, path := range []string{a, b} {
		file, err := os.Open(path)
		if err != nil {
			return false
		}
		h := sha256.New()
		_, err = io.Copy(h, file)
		_ = file.Close()
		if err != nil {
			return false
		}
		h.Sum(sums[i][:0])
	}
	return sums[0] == sums[1]
}

// setRef sets the commit of a revision.
func (l layout) setRef(revision, commit string) error {
	if revision == commit {
		return nil
	}
	at := filepath.Join(l.dir(), "refs", filepath.FromSlash(revision))
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	return disk.WriteFile(at, []byte(commit), 0o644)
}

// lockBlob locks a blob for writing. The error is disk.ErrLocked if another program writes it.
func (l layout) lockBlob(etag string) (*flock.Flock, error) {
	path := l.lock(etag)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	return disk.TryLock(path, 0o644) // other tools lock it too
}

// maxRefBytes bounds a file below refs, which names one commit.
const maxRefBytes = 1 << 10

// hasRef reports whether a ref names the commit.
func (l layout) hasRef(commit string) bool {
	found := false
	_ = filepath.WalkDir(filepath.Join(l.dir(), "refs"),
		func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				text, _, err := disk.Read(path, maxRefBytes)
				found = found || err != nil || strings.TrimSpace(string(text)) == commit
			}
			return nil
		})
	return found
}

// linked returns the names of the blobs that links under dir point to.
func linked(dir string) map[string]bool {
	names := map[string]bool{}
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type()&fs.ModeSymlink != 0 {
			if target, err := os.Readlink(path); err == nil {
				names[filepath.Base(target)] = true
			}
		}
		return nil
	})
	return names
}
