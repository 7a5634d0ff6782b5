package cache

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
)

// TestFolders: folders are remembered once, by any number of programs at once, until they are
// forgotten. Files of others in the list's folder stay.
func TestFolders(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "caches")
	want := []string{"/a", "/a\nb", "/media/disk/cache", "/z"}
	var programs sync.WaitGroup
	for range 8 {
		programs.Go(func() {
			l := OpenFolders(dir)
			for _, one := range want {
				l.Remember(one)
			}
			l.Remember("relative")
			l.Remember(DefaultDir())
		})
	}
	programs.Wait()
	l := OpenFolders(dir)
	expect := func(want ...string) {
		t.Helper()
		got := l.List()
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	expect(want...)
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != len(want) {
		t.Errorf("%v, %v", entries, err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, %v", e.Name(), info.Mode(), err)
		}
	}
	foreign := map[string]string{"notes.folder": "/home", "0123456789abcdef.folder": "/home\n"}
	for name, text := range foreign {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	mine := filepath.Join(dir, filepath.Base(l.path(folderText("/linked"))))
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	if err := errors.Join(os.WriteFile(elsewhere, []byte(folderText("/linked")), 0o600),
		os.Symlink(elsewhere, mine)); err != nil {
		t.Fatal(err)
	}
	expect(want...)
	for _, one := range append(want, "/home", "/linked") {
		if err := l.Forget(one); err != nil {
			t.Error(err)
		}
	}
	expect()
	for name, text := range foreign {
		if got, err := os.ReadFile(filepath.Join(dir, name)); string(got) != text {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Lstat(mine); err != nil {
		t.Error("a link was removed:", err)
	}
	if err := os.Remove(mine); err != nil {
		t.Fatal(err)
	}
	l.Remember("/a")
	if err := l.Forget("/a"); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("the empty list is left")
	}
	var none *Folders
	none.Remember("/a")
	if err := none.Forget("/a"); err != nil || len(none.List()) > 0 {
		t.Errorf("no list: %v, %q", err, none.List())
	}
}

// TestConnected: a folder that was removed differs from one whose disk is away.
func TestConnected(t *testing.T) {
	dir := t.TempDir()
	for path, want := range map[string]bool{dir: true, filepath.Join(dir, "gone"): true,
		filepath.Join(dir, "disk", "gone"): false} {
		if got := Connected(path); got != want {
			t.Errorf("Connected(%s) = %v", path, got)
		}
	}
}
