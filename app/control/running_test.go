package control

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestRunning: servers are found while they run, and the file of a dead server is removed.
func TestRunning(t *testing.T) {
	dir := t.TempDir()
	if got := Running(dir); got != nil {
		t.Errorf("without servers: %q", got)
	}
	if _, err := os.Stat(filepath.Join(dir, runningDir)); err == nil {
		t.Error("Running created a folder")
	}
	withdraw := map[string]func(){}
	for _, url := range []string{"http://127.0.0.1:1/", "http://127.0.0.1:2/"} {
		end, err := Announce(dir, url)
		if err != nil {
			t.Fatal(err)
		}
		withdraw[url] = end
	}
	stale := filepath.Join(dir, runningDir, "123"+runningSuffix)
	if err := os.WriteFile(stale, []byte("http://127.0.0.1:3/\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	check := func(want ...string) {
		t.Helper()
		got := Running(dir)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("running: %q, want %q", got, want)
		}
	}
	check("http://127.0.0.1:1/", "http://127.0.0.1:2/")
	if _, err := os.Stat(stale); !os.IsNotExist(err) {
		t.Errorf("the stale file was not removed: %v", err)
	}
	withdraw["http://127.0.0.1:1/"]()
	check("http://127.0.0.1:2/")
	withdraw["http://127.0.0.1:2/"]()
	check()
	if files, _ := os.ReadDir(filepath.Join(dir, runningDir)); len(files) != 0 {
		t.Errorf("%d files remain", len(files))
	}
}

// TestAnnounceRemovesStale: a server that starts removes the files of killed ones.
func TestAnnounceRemovesStale(t *testing.T) {
	dir := t.TempDir()
	stale := filepath.Join(dir, runningDir, "123"+runningSuffix)
	if err := errors.Join(os.Mkdir(filepath.Dir(stale), 0o700),
		os.WriteFile(stale, []byte("http://127.0.0.1:3/\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	end, err := Announce(dir, "http://127.0.0.1:1/")
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	if _, err := os.Stat(stale); !os.IsNotExist(err) {
		t.Errorf("the stale file was not removed: %v", err)
	}
}

// TestRunningReadsOnlyAddresses: a locked file without a valid address is ignored.
func TestRunningReadsOnlyAddresses(t *testing.T) {
	for _, text := range []string{"", "file:///etc/passwd/", "http://127.0.0.1:1", "nonsense"} {
		dir := t.TempDir()
		end, err := Announce(dir, text)
		if err != nil {
			t.Fatal(err)
		}
		if got := Running(dir); got != nil {
			t.Errorf("%q was accepted as %q", text, got)
		}
		end()
	}
}

// TestForeignFilesAmongRunning: files that no server wrote stay.
func TestForeignFilesAmongRunning(t *testing.T) {
	dir, elsewhere := t.TempDir(), filepath.Join(t.TempDir(), "bookmark")
	folder := filepath.Join(dir, runningDir)
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	const address = "http://127.0.0.1:3/\n"
	files := map[string]string{filepath.Join(folder, "bookmark.url"): address,
		filepath.Join(folder, "12.url"): "[InternetShortcut]", elsewhere: address,
		filepath.Join(folder, "13.url.txt"): address}
	for path, text := range files {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(folder, "14.url")
	if err := os.Symlink(elsewhere, link); err != nil {
		t.Fatal(err)
	}
	if got := Running(dir); got != nil {
		t.Errorf("running: %q", got)
	}
	files[link] = address
	for path, text := range files {
		if left, err := os.ReadFile(path); err != nil || string(left) != text {
			t.Errorf("%s has %q, %v", path, left, err)
		}
	}
}
