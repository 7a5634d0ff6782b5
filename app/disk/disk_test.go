package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/renameio/v2"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func expect(t *testing.T, path, want string) {
	t.Helper()
	if text, err := os.ReadFile(path); err != nil || string(text) != want {
		t.Errorf("%s holds %q, %v; want %q", path, text, err, want)
	}
}

// TestExchange: two folders change places, and nothing changes if one is missing.
func TestExchange(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	for path, text := range map[string]string{a: "A", b: "B"} {
		if err := os.Mkdir(path, 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(path, "file"), text)
	}
	if err := Exchange(a, b); err != nil {
		t.Fatal(err)
	}
	expect(t, filepath.Join(a, "file"), "B")
	expect(t, filepath.Join(b, "file"), "A")
	if err := Exchange(a, filepath.Join(dir, "c")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("with a missing folder: %v", err)
	}
	expect(t, filepath.Join(a, "file"), "B")
}

// Rename moves files and folders. Unlike os.Rename it replaces neither a file nor an empty folder.
func TestRename(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	write(t, at("a"), "A")
	write(t, at("b"), "B")
	if err := os.Mkdir(at("empty"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(at("folder"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := Rename(at("a"), at("b")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("over a file: %v", err)
	}
	if err := Rename(at("folder"), at("empty")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("over an empty folder: %v", err)
	}
	expect(t, at("b"), "B")
	if err := Rename(at("a"), at("folder/a")); err != nil {
		t.Error(err)
	}
	if err := Rename(at("folder"), at("moved")); err != nil {
		t.Error(err)
	}
	expect(t, at("moved/a"), "A")
}

// A clone has the content of the original and does not follow its changes. A failed clone leaves
// nothing behind.
func TestClone(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	write(t, from, "text")
	if err := Clone(from, to); err != nil {
		if _, err := os.Lstat(to); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a failed clone left something: %v", err)
		}
		t.Skipf("this file system does not clone: %v", err)
	}
	write(t, from, "changed")
	expect(t, to, "text")
	if err := Clone(from, to); err == nil {
		t.Error("a clone replaced a file")
	}
}

func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, err := TryLock(path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := TryLock(path, 0o600); !errors.Is(err, ErrLocked) {
		t.Errorf("locked twice: %v", err)
	}
	first.Unlock()
	again, err := TryLock(path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	again.Unlock()
	if _, err := TryLock(filepath.Join(path, "x"), 0o600); err == nil || errors.Is(err, ErrLocked) {
		t.Errorf("a lock in a missing folder: %v", err)
	}
}

// TestLockWaits: Lock gives up after its time, and says which file is locked.
func TestLockWaits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, err := TryLock(path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Lock(path, 0o600, time.Millisecond); !errors.Is(err, ErrLocked) ||
		!strings.Contains(err.Error(), path) {
		t.Errorf("a locked file: %v", err)
	}
	waited := make(chan error)
	go func() {
		second, err := Lock(path, 0o600, time.Hour)
		if err == nil {
			err = second.Unlock()
		}
		waited <- err
	}()
	first.Unlock()
	if err := <-waited; err != nil {
		t.Error(err)
	}
}

// TestLockOfLinks: what is in the place of a lock and not a file is neither followed nor waited
// for, and the error names it.
func TestLockOfLinks(t *testing.T) {
	dir := t.TempDir()
	taken, err := TryLock(filepath.Join(dir, "taken"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Unlock()
	at := func(name string) string { return filepath.Join(dir, name) }
	made := errors.Join(os.Symlink("taken", at("link")), os.Symlink("gone", at("dangling")),
		os.Symlink("itself", at("itself")), os.Symlink("pipe", at("link to a pipe")),
		syscall.Mkfifo(at("pipe"), 0o600), os.Mkdir(at("folder"), 0o700))
	if made != nil {
		t.Fatal(made)
	}
	for _, name := range []string{"link", "dangling", "itself", "link to a pipe", "pipe",
		"folder"} {
		_, err := Lock(at(name), 0o600, time.Hour)
		if err == nil || errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), at(name)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := os.Lstat(at("gone")); err == nil {
		t.Error("the target of a link was created")
	}
}

// WriteFile sets the mode of a new and of an existing file, replaces a link, and leaves no
// temporary file. A write that fails leaves the old file.
func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	path, target := filepath.Join(dir, "a.json"), filepath.Join(dir, "target")
	write(t, path, "old")
	if err := WriteFile(path, []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	expect(t, path, "new")
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v; want 0600", info.Mode(), err)
	}
	write(t, target, "target")
	link := filepath.Join(dir, "link.json")
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(link, []byte("not a link"), 0o600); err != nil {
		t.Fatal(err)
	}
	expect(t, link, "not a link")
	expect(t, target, "target")
	folder := filepath.Join(dir, "folder")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(folder, nil, 0o600); err == nil {
		t.Error("a folder was replaced")
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 4 {
		t.Errorf("%v, %v; want 4 entries and no temporary file", entries, err)
	}
}

// TestForeignFilesBesideTemporary: RemoveTemporary removes what a killed WriteFile left behind, and
// no other file.
func TestForeignFilesBesideTemporary(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a.json", ".a.json", ".a.json.bak", ".a.json5x", ".b.json77",
		".DS_Store", "a.json1", ".a.json12345678901234567890"} {
		write(t, filepath.Join(dir, name), "foreign")
	}
	if err := os.Mkdir(filepath.Join(dir, ".a.json8"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("a.json", filepath.Join(dir, ".a.json9")); err != nil {
		t.Fatal(err)
	}
	foreign, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var ours [2]string // the old one is left behind, the new one may be in use
	for i := range ours {
		file, err := renameio.NewPendingFile(filepath.Join(dir, "a.json"),
			renameio.WithTempDir(dir))
		if err != nil {
			t.Fatal(err)
		}
		defer file.Cleanup()
		ours[i] = file.Name()
	}
	past := time.Now().Add(-2 * leftoverAge)
	for _, e := range foreign {
		_ = os.Chtimes(filepath.Join(dir, e.Name()), past, past)
	}
	if err := os.Chtimes(ours[0], past, past); err != nil {
		t.Fatal(err)
	}
	RemoveTemporary(dir, func(name string) bool { return name == "a.json" })
	for _, e := range foreign {
		if _, err := os.Lstat(filepath.Join(dir, e.Name())); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Lstat(ours[0]); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is left: %v", ours[0], err)
	}
	if _, err := os.Lstat(ours[1]); err != nil {
		t.Error(err)
	}
}

func TestSpace(t *testing.T) {
	dir := t.TempDir()
	if free, err := FreeBytes(dir); err != nil || free <= 0 {
		t.Errorf("%d bytes are free, %v", free, err)
	}
	if _, err := FreeBytes(filepath.Join(dir, "gone")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the free space of a missing folder: %v", err)
	}
	if !SameDisk(dir, filepath.Dir(dir)) || SameDisk(dir, filepath.Join(dir, "gone")) {
		t.Error("SameDisk is wrong")
	}
	if err := fmt.Errorf("writing: %w", &os.PathError{Err: syscall.ENOSPC}); !IsFull(err) ||
		IsFull(fs.ErrExist) {
		t.Error("IsFull is wrong")
	}
}

// TestRead: a file of up to the limit is read, and nothing that might never end.
func TestRead(t *testing.T) {
	dir := t.TempDir()
	path, pipe := filepath.Join(dir, "file"), filepath.Join(dir, "pipe")
	write(t, path, "four")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if data, info, err := Read(path, 4); string(data) != "four" || err != nil || info.Size() != 4 {
		t.Errorf("got %q, %v, %v", data, info, err)
	}
	if _, _, err := Read(path, 3); !errors.Is(err, ErrTooLong) {
		t.Errorf("a longer file: %v", err)
	}
	if _, _, err := Read(filepath.Join(dir, "none"), 4); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	for _, other := range []string{dir, pipe, os.DevNull} {
		if _, _, err := Read(other, 4); err == nil {
			t.Errorf("%s was read", other)
		}
	}
}

// TestLockFolder: the lock excludes others until it is unlocked, and leaves no file behind.
func TestLockFolder(t *testing.T) {
	dir := t.TempDir()
	unlock, err := LockFolder(dir, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := LockFolder(dir, time.Millisecond); !errors.Is(err, ErrLocked) ||
		!strings.Contains(err.Error(), dir) {
		t.Errorf("twice: %v", err)
	}
	unlock()
	unlock, err = LockFolder(dir, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	unlock()
	if entries, err := os.ReadDir(dir); len(entries) > 0 || err != nil {
		t.Errorf("left behind: %v %v", entries, err)
	}
	if unlock, err = LockFolder(filepath.Join(dir, "gone"), time.Minute); err != nil {
		t.Errorf("no folder: %v", err)
	}
	unlock()
}
