package service

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headroom/app/cache"
	"headroom/app/disk"
	"headroom/app/settings"
	"headroom/app/stored"
	"headroom/engine/blockstore"
)

// home gives the test a home folder of its own, and opens its settings.
func home(t *testing.T) *settings.File {
	t.Helper()
	dir := t.TempDir()
	for name, value := range map[string]string{"HOME": dir, "HF_HUB_CACHE": "", "HF_HOME": "",
		"XDG_CONFIG_HOME": filepath.Join(dir, "config"),
		"XDG_CACHE_HOME":  filepath.Join(dir, "cache"),
		"XDG_DATA_HOME":   filepath.Join(dir, "data"), "HF_ENDPOINT": ""} {
		t.Setenv(name, value)
	}
	return OpenSettings()
}

// fillCache creates a cache with a file that is named like an entry.
func fillCache(t *testing.T, dir string) (entry string) {
	t.Helper()
	c, err := cache.Open(cache.Options{Dir: dir, Folders: CacheFolders()})
	if err == nil {
		err = c.Close()
	}
	name := "ab" + strings.Repeat("0", 62) + ".safetensors"
	entry = filepath.Join(dir, "blocks", "ab", name)
	if err = errors.Join(err, os.MkdirAll(filepath.Dir(entry), 0o700),
		os.WriteFile(entry, []byte("secret"), 0o600)); err != nil {
		t.Fatal(err)
	}
	return entry
}

// TestDeleteHere deletes everything while no server runs: the caches in all folders that have had
// one, and the files of an unfinished move. It names what is left.
func TestDeleteHere(t *testing.T) {
	file := home(t)
	dir := t.TempDir()
	from, flag, to := filepath.Join(dir, "from"), filepath.Join(dir, "flag"),
		filepath.Join(dir, "to")
	fillCache(t, flag) // of another run, with a flag
	fillCache(t, from)
	fillCache(t, cache.DefaultDir())
	if err := file.Change(func(s *settings.Settings) { s.Cache.Dir = from }); err != nil {
		t.Fatal(err)
	}
	if err := (&blockstore.Move{From: from, To: to}).Copy(t.Context()); err != nil {
		t.Fatal(err)
	}
	memo, _ := json.Marshal([]map[string]any{{"kind": "cache", "title": to,
		"memo": cache.MoveMemo{To: to}}})
	saved := filepath.Join(filepath.Dir(file.Path()), jobsFile)
	for path, text := range map[string]string{saved: string(memo), saved + ".damaged-1": "secret",
		saved + ".damaged-x": "mine"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	caches := func(list stored.List) stored.Item { return before(list, stored.Cache) }
	if got := caches(StoredHere(file)); got.Files < 3 || len(got.Paths) != 3 ||
		got.Bytes != 3*int64(len("secret")) { // the entries, as on every page
		t.Errorf("stored: %+v", got)
	}

	busy, err := disk.TryLock(saved+".lock", 0o600)
	if err != nil {
		t.Fatal(err)
	}
	gone := DeleteHere(file, stored.Choice{})
	if !strings.Contains(strings.Join(gone.Left, " "), "moves of the cache are left") {
		t.Errorf("while another program has the jobs: %q", gone.Left)
	}
	if _, err := os.Stat(to); err != nil {
		t.Error("the files of a job that another program has were removed")
	}
	busy.Unlock()
	fillCache(t, flag)
	if gone := DeleteHere(file, stored.Choice{}); len(gone.Left) > 0 {
		t.Errorf("left: %q", gone.Left)
	}
	for _, path := range []string{from, flag, to, cache.DefaultDir(), saved + ".damaged-1"} {
		if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is left: %v", path, err)
		}
	}
	if text, err := os.ReadFile(saved); string(text) != "[]\n" {
		t.Errorf("jobs: %q, %v", text, err)
	}
	if _, err := os.Stat(saved + ".damaged-x"); err != nil {
		t.Error(err)
	}
	if got := caches(StoredHere(file)); got.Files > 0 || len(CacheFolders().List()) > 0 {
		t.Errorf("stored: %+v, remembered: %q", got, CacheFolders().List())
	}
}

// TestDeleteOnMissingDisk: a cache on a disk that is not connected is named, and found again.
func TestDeleteOnMissingDisk(t *testing.T) {
	file := home(t)
	disk, away := filepath.Join(t.TempDir(), "disk"), filepath.Join(t.TempDir(), "away")
	dir := filepath.Join(disk, "cache")
	fillCache(t, dir)
	if err := os.Rename(disk, away); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		gone := DeleteHere(file, stored.Choice{})
		if len(gone.Left) != 1 || !strings.Contains(gone.Left[0], dir) {
			t.Errorf("left: %q", gone.Left)
		}
	}
	if err := os.Rename(away, disk); err != nil {
		t.Fatal(err)
	}
	if gone := DeleteHere(file, stored.Choice{}); len(gone.Left) > 0 {
		t.Errorf("left: %q", gone.Left)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("it is left")
	}
}
