package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
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

// A rename moves files and folders, and replaces neither a file nor an empty folder, which
// os.Rename would.
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

// A clone holds what the original held, and changes by itself; where the file system has none,
// nothing is left.
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
	first, err := TryLock(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := TryLock(path); !errors.Is(err, ErrLocked) {
		t.Errorf("locked twice: %v", err)
	}
	first.Unlock()
	again, err := TryLock(path)
	if err != nil {
		t.Fatal(err)
	}
	again.Unlock()
	if _, err := TryLock(filepath.Join(path, "x")); err == nil || errors.Is(err, ErrLocked) {
		t.Errorf("no folder: %v", err)
	}
}

func TestSpace(t *testing.T) {
	dir := t.TempDir()
	if free, err := FreeBytes(dir); err != nil || free <= 0 {
		t.Errorf("%d bytes are free, %v", free, err)
	}
	if _, err := FreeBytes(filepath.Join(dir, "gone")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no folder: %v", err)
	}
	if !SameDisk(dir, filepath.Dir(dir)) || SameDisk(dir, filepath.Join(dir, "gone")) {
		t.Error("SameDisk is wrong")
	}
	if err := fmt.Errorf("writing: %w", &os.PathError{Err: syscall.ENOSPC}); !IsFull(err) ||
		IsFull(fs.ErrExist) {
		t.Error("IsFull is wrong")
	}
}
