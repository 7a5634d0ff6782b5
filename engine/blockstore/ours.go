package blockstore

// What the store may remove. People choose the cache's folder, and it may hold their files. The
// store removes a file only if its name and place, or for the index its content, show that a store
// wrote it.

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// tempName matches the files in tempDir: an owner, then the number of a file being written, or
// "lock". See Store.owner.
var tempName = regexp.MustCompile(`^(\d+-[0-9a-f]{16})\.(?:\d+|lock)$`)

// tempOwner returns the owner of a file in tempDir, "" if no store wrote the file.
func tempOwner(name string) string {
	if m := tempName.FindStringSubmatch(name); m != nil {
		return m[1]
	}
	return ""
}

// Exists reports whether a store has used dir: it has a store's index, entries, or the layout of a
// store whose index is damaged. It creates nothing.
func Exists(dir string) bool {
	if isIndex(filepath.Join(dir, indexName)) {
		return true
	}
	_, lockErr := os.Stat(filepath.Join(dir, lockName))
	blocks, blocksErr := os.Stat(filepath.Join(dir, blocksDir))
	if lockErr == nil && blocksErr == nil && blocks.IsDir() {
		return true
	}
	found := false
	_ = filepath.WalkDir(filepath.Join(dir, blocksDir),
		func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return fs.SkipDir
			}
			if _, found = entryAt(dir, path); found && d.Type().IsRegular() {
				return fs.SkipAll
			}
			found = false
			return nil
		})
	return found
}

// entryAt returns the key of the entry whose place in the store in dir is path. ok is false if no
// entry has that place.
func entryAt(dir, path string) (k Key, ok bool) {
	name, ok := strings.CutSuffix(filepath.Base(path), extension)
	k, err := parseKey(name)
	return k, ok && err == nil && path == entryPath(dir, k)
}

// isIndex reports whether the file is an index of any version: an SQLite database with the store's
// application ID in its header, at byte 68. https://www.sqlite.org/fileformat.html
func isIndex(path string) bool {
	f, err := osDisk{}.Open(path) // regular files only: opening a pipe would wait
	if err != nil {
		return false
	}
	defer f.Close()
	var head [72]byte
	_, err = io.ReadFull(f, head[:])
	return err == nil && string(head[:16]) == "SQLite format 3\x00" &&
		binary.BigEndian.Uint32(head[68:]) == applicationID
}

// isForeignIndex reports whether there is something at path that is neither an empty file nor an
// index: a pipe or a folder, for example.
func isForeignIndex(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && (!info.Mode().IsRegular() || info.Size() > 0 && !isIndex(path))
}

// indexSuffixes are those of the files that SQLite keeps for an index, the database first.
var indexSuffixes = []string{"", "-wal", "-shm", "-journal"}

// discardIndex makes room for a new index at path. It removes a store's index. Any other file of
// that name, perhaps an index whose header is damaged, is renamed, and set aside under the returned
// path. So are the files that SQLite may have kept for it, and they come first: if a crash
// interrupts this, the file that shows whose they are is still in its place.
func discardIndex(files disk, path string) (aside string, err error) {
	if _, err := os.Lstat(path); ignoreGone(err) != nil {
		return "", err
	}
	if isForeignIndex(path) {
		aside = fmt.Sprintf("%s.set-aside-%d", path, time.Now().UnixNano())
	}
	for _, suffix := range slices.Backward(indexSuffixes) {
		if aside != "" {
			err = files.Rename(path+suffix, aside+suffix)
		} else {
			err = files.Remove(path + suffix)
		}
		if ignoreGone(err) != nil {
			return "", err
		}
	}
	return aside, nil
}

// asideName matches the names that discardIndex gives, those of indexSuffixes among them.
var asideName = regexp.MustCompile(`^(` + regexp.QuoteMeta(indexName) +
	`\.set-aside-\d+)(?:-wal|-shm|-journal)?$`)

// indexMark is a part of every index's schema. SQLite keeps the text of CREATE TABLE on its first
// pages.
const indexMark = "fingerprint TEXT NOT NULL, format TEXT NOT NULL, name TEXT NOT NULL"

// isDamagedIndex reports whether a file that isIndex refuses was an index: its header is damaged,
// but its schema is not.
func isDamagedIndex(path string) bool {
	f, err := osDisk{}.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	start, err := io.ReadAll(io.LimitReader(f, 64<<10))
	return err == nil && bytes.Contains(start, []byte(indexMark))
}

// clearAside removes damaged indexes that were set aside in dir, and dir if it is then empty. It
// returns the files that may be somebody else's.
func clearAside(files disk, dir string) (others []string, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range slices.Backward(entries) { // a database comes after its -wal and the others
		m := asideName.FindStringSubmatch(e.Name())
		if m == nil {
			continue
		}
		if path := filepath.Join(dir, e.Name()); isDamagedIndex(filepath.Join(dir, m[1])) {
			err = errors.Join(err, ignoreGone(files.Remove(path)))
			_ = files.Remove(dir) // fails while it holds other files
		} else {
			others = append(others, path)
		}
	}
	return others, ignoreGone(err)
}

// removeNamed removes the files in dir whose name a store gave them, and then dir if it is empty.
func removeNamed(files disk, dir string, ours func(name string) bool) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if e.Type().IsRegular() && ours(e.Name()) {
			err = errors.Join(err, ignoreGone(files.Remove(filepath.Join(dir, e.Name()))))
		}
	}
	if ignoreGone(err) == nil {
		_ = files.Remove(dir) // fails if it holds other files
	}
	return ignoreGone(err)
}

func isPin(name string) bool  { _, err := parseKey(name); return err == nil }
func isTemp(name string) bool { return tempOwner(name) != "" }
