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

	"headroom/engine/seal"
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

// ownFolder is the text of the lock of a store that has created its folder. Without this text, the
// folder was there before the store, and stays when the store is removed.
const ownFolder = "Headroom created this folder.\n"

// makeFolder creates the folder of a store unless it exists, and notes in it who created it.
func makeFolder(files disk, dir string) error {
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(err, files.MkdirAll(dir))
	}
	if err := files.MkdirAll(dir); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil // another store has created the folder
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString(ownFolder)
	return errors.Join(err, f.Close())
}

// isOwnFolder reports whether a store has created its folder.
func isOwnFolder(dir string) bool {
	text, err := readStart(filepath.Join(dir, lockName), int64(len(ownFolder))+1)
	return err == nil && string(text) == ownFolder
}

// isLock reports whether a file is the lock of the index: empty, or with the text of makeFolder.
func isLock(path string) bool {
	text, err := readStart(path, int64(len(ownFolder))+1)
	return err == nil && strings.HasPrefix(ownFolder, string(text))
}

// readStart returns the first bytes of a regular file.
func readStart(path string, limit int64) ([]byte, error) {
	f, err := osDisk{}.Open(path) // opening a pipe would wait
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, limit))
}

// removeFile removes a regular file. What else has its name is not a store's, and stays.
func removeFile(files disk, path string) error {
	if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
		return ignoreGone(err)
	}
	return ignoreGone(files.Remove(path))
}

// removeFolder removes a folder if it is empty. A link to a folder is not a store's, and stays.
func removeFolder(files disk, path string) {
	if info, err := os.Lstat(path); err == nil && info.IsDir() {
		_ = files.Remove(path) // fails if it is not empty
	}
}

// checkFree returns an error if there is something at path that is not a regular file. A store
// would overwrite it.
func checkFree(path string) error {
	if info, err := os.Lstat(path); err != nil || info.Mode().IsRegular() {
		return ignoreGone(err)
	}
	return fmt.Errorf("blockstore: %s is in the way: %w", path, errNoFile)
}

// Exists reports whether a store has used dir: it has a store's index, entries, or the layout of a
// store whose index is damaged. It creates nothing.
func Exists(dir string) bool {
	if isIndex(filepath.Join(dir, indexName)) {
		return true
	}
	blocks, err := os.Stat(filepath.Join(dir, blocksDir))
	if err == nil && blocks.IsDir() && isLock(filepath.Join(dir, lockName)) {
		return true
	}
	found := false
	_ = filepath.WalkDir(filepath.Join(dir, blocksDir),
		func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return fs.SkipDir
			}
			_, named := entryAt(dir, path)
			if found = named && d.Type().IsRegular() && beginsLikeEntry(path); found {
				return fs.SkipAll
			}
			return nil
		})
	return found
}

// beginsLikeEntry reports whether a file begins like an entry: sealed, or with a header of
// safetensors. In a folder without an index and a lock, the name alone says too little.
func beginsLikeEntry(path string) bool {
	text, err := readStart(path, 16)
	return err == nil && (seal.IsFile(text) || len(text) > 8 && text[8] == '{')
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
	ours, _ := checkIndex(path)
	return ours
}

// checkIndex is isIndex with the error of a file that cannot be read, perhaps for lack of
// descriptors: it may be an index. What is missing or no file is no error.
func checkIndex(path string) (ours bool, err error) {
	head, err := readStart(path, 72)
	if d := (damage{}); errors.As(err, &d) || errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && len(head) == 72 && string(head[:16]) == "SQLite format 3\x00" &&
		binary.BigEndian.Uint32(head[68:]) == applicationID, err
}

// isForeignIndex reports whether there is something at path that is neither an empty file nor an
// index: a pipe or a folder, for example.
func isForeignIndex(path string) (bool, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return false, ignoreGone(err)
	}
	ours, err := checkIndex(path)
	return !ours && !(info.Mode().IsRegular() && info.Size() == 0), err
}

// indexSuffixes are those of the files that SQLite keeps for an index, the database first.
var indexSuffixes = []string{"", "-wal", "-shm", "-journal"}

// discardIndex makes room for a new index at path. It removes a store's index. Any other file of
// that name, perhaps an index whose header is damaged, is renamed, and set aside under the returned
// path. So are the files that SQLite may have kept for it, and they come first: if a crash
// interrupts this, the file that shows whose they are is still in its place.
func discardIndex(files disk, path string) (aside string, err error) {
	foreign, err := isForeignIndex(path)
	if err != nil {
		return "", err
	}
	if foreign {
		aside = fmt.Sprintf("%s.set-aside-%d", path, time.Now().UnixNano())
	}
	for _, suffix := range slices.Backward(indexSuffixes) {
		if aside != "" {
			err = files.Rename(path+suffix, aside+suffix)
		} else {
			err = removeFile(files, path+suffix)
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
	start, err := readStart(path, 64<<10)
	return err == nil && bytes.Contains(start, []byte(indexMark))
}

// clearAside removes damaged indexes that were set aside in dir. It returns the files that may be
// somebody else's.
func clearAside(files disk, dir string) (others []string, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range slices.Backward(entries) { // a database comes after its -wal and the others
		m := asideName.FindStringSubmatch(e.Name())
		if m == nil {
			continue
		}
		if path := filepath.Join(dir, e.Name()); isDamagedIndex(filepath.Join(dir, m[1])) {
			err = errors.Join(err, removeFile(files, path))
		} else {
			others = append(others, path)
		}
	}
	return others, ignoreGone(err)
}

// removeNamed removes the files in dir whose name a store gave them, and then dir if it is empty. A
// link to a folder is not followed.
func removeNamed(files disk, dir string, ours func(name string) bool) error {
	if info, err := os.Lstat(dir); err != nil || !info.IsDir() {
		return ignoreGone(err)
	}
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if e.Type().IsRegular() && ours(e.Name()) {
			err = errors.Join(err, ignoreGone(files.Remove(filepath.Join(dir, e.Name()))))
		}
	}
	if ignoreGone(err) == nil {
		removeFolder(files, dir)
	}
	return ignoreGone(err)
}

func isPin(name string) bool  { _, err := parseKey(name); return err == nil }
func isTemp(name string) bool { return tempOwner(name) != "" }
