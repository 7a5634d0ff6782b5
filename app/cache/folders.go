package cache

// The folders in which this installation has had a cache. Flags and settings name only the present
// one, and "Delete everything" must find the others, too. Each has a small file, whose name is the
// hash of its content, so that programs that run at once need no lock.

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"headroom/app/disk"
)

// Folders is the list of folders that have had a cache. A nil *Folders is always empty. Its methods
// are safe for concurrent use, also by other processes.
type Folders struct{ dir string }

const (
	folderSuffix = ".folder"
	maxPathBytes = 16 << 10
)

// OpenFolders returns the list in dir, which need not exist.
func OpenFolders(dir string) *Folders { return &Folders{dir} }

// Remember adds a folder. The default folder needs no entry.
func (l *Folders) Remember(dir string) {
	if l == nil || dir == DefaultDir() || !filepath.IsAbs(dir) {
		return
	}
	text := folderText(dir)
	path := l.path(text)
	if l.entry(path) != "" {
		return
	}
	err := os.MkdirAll(l.dir, 0o700)
	if err == nil {
		err = disk.WriteFile(path, []byte(text), 0o600)
	}
	if err != nil {
		slog.Warn("the folder of the cache cannot be remembered: \"Delete everything\" will not "+
			"find it once it is no longer in the settings", "dir", dir, "err", err)
	}
}

// Forget removes a folder from the list, and the list if it is then empty.
func (l *Folders) Forget(dir string) error {
	if l == nil {
		return nil
	}
	if path := l.path(folderText(dir)); l.entry(path) != "" {
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	disk.RemoveTemporary(l.dir, func(name string) bool {
		return strings.HasSuffix(name, folderSuffix)
	})
	if info, err := os.Lstat(l.dir); err == nil && info.IsDir() {
		_ = os.Remove(l.dir) // fails if it is not empty
	}
	return nil
}

// List returns the folders, some of which may no longer exist.
func (l *Folders) List() (dirs []string) {
	if l == nil {
		return nil
	}
	entries, _ := os.ReadDir(l.dir) // there may be no list
	for _, e := range entries {
		if dir := l.entry(filepath.Join(l.dir, e.Name())); dir != "" {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

func folderText(dir string) string { return filepath.Clean(dir) + "\n" }

func (l *Folders) path(text string) string {
	sum := sha256.Sum256([]byte(text))
	return filepath.Join(l.dir, hex.EncodeToString(sum[:8])+folderSuffix)
}

// entry returns the folder in a file of the list; "" if the file is not the list's.
func (l *Folders) entry(path string) string {
	if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	text, _, err := disk.Read(path, maxPathBytes)
	dir := strings.TrimSuffix(string(text), "\n")
	if err != nil || l.path(string(text)) != path || !filepath.IsAbs(dir) {
		return ""
	}
	return dir
}

// Connected reports whether there is a folder, or at least the folder around it. If both are gone,
// the disk may only be unplugged.
func Connected(dir string) bool {
	_, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		_, err = os.Stat(filepath.Dir(dir))
	}
	return !errors.Is(err, fs.ErrNotExist)
}
