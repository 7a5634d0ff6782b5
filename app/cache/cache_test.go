package cache

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headroom/engine"
	"headroom/engine/problem"
	"headroom/engine/seal"
)

// open opens a cache in dir. The test closes it.
func open(t *testing.T, dir string) *Cache {
	t.Helper()
	c, err := Open(Options{Dir: dir,
		Limits: engine.BlockStoreOptions{MinFreeBytes: -1, Log: slog.New(slog.DiscardHandler)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func TestDefaultDir(t *testing.T) {
	t.Setenv("HOME", "/home/somebody")
	t.Setenv("XDG_CACHE_HOME", "")
	if got := DefaultDir(); filepath.Base(got) != "blocks" ||
		filepath.Base(filepath.Dir(got)) != "headroom" {
		t.Errorf("got %q", got)
	}
	t.Setenv("HOME", "")
	if got := DefaultDir(); got != "" {
		t.Errorf("without a home: %q", got)
	}
}

// TestCap: the default cap is 20 GB or a tenth of the disk, whichever is less, also for a folder
// that does not exist yet.
func TestCap(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "not", "there")
	disk := diskBytes(dir)
	if disk <= 0 {
		t.Fatalf("the disk has %d bytes", disk)
	}
	for disk, want := range map[int64]int64{1e12: 20e9, 200e9: 20e9, 128e9: 12.8e9, 0: 0} {
		if got := defaultCap(disk); got != want {
			t.Errorf("the cap on a disk of %d is %d, want %d", disk, got, want)
		}
	}
	if got, want := open(t, dir).Stats().MaxBytes, defaultCap(disk); got != want {
		t.Errorf("the cap on a disk of %d is %d, want %d", disk, got, want)
	}
	c, err := Open(Options{Dir: filepath.Join(dir, "own"),
		Limits: engine.BlockStoreOptions{MaxBytes: disk}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got := c.Stats().MaxBytes; got != disk {
		t.Errorf("the cap is %d, want the configured %d", got, disk)
	}
}

func TestExists(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "blocks")
	if Exists(dir) {
		t.Error("Exists returns true for a missing folder")
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if Exists(dir) {
		t.Error("Exists returns true for an empty folder")
	}
	open(t, dir)
	if !Exists(dir) {
		t.Error("Exists returns false for a cache")
	}
}

// TestRecent: a second call returns the same statistics, old ones are refreshed, and after Close
// Recent returns the last ones.
func TestRecent(t *testing.T) {
	c := open(t, t.TempDir())
	first := c.Recent()
	if !first.On || first.FreeBytes <= 0 {
		t.Errorf("figures %+v", first)
	}
	at := c.at
	if c.Recent(); c.at != at {
		t.Error("a second call within recentAge read the statistics again")
	}
	c.at = c.at.Add(-recentAge - 1)
	c.Recent()
	c.reading.Wait()
	if !c.at.After(at) || c.busy {
		t.Error("old statistics are not refreshed")
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	c.at = c.at.Add(-recentAge - 1)
	if got := c.Recent(); got.Dir != first.Dir || c.busy {
		t.Errorf("after Close: %+v", got)
	}
}

// TestWithoutKey: without the installation's key there is no cache, and no folder in plain text.
func TestWithoutKey(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	locked := problem.New(problem.Locked, "The keychain is locked", "", "")
	_, err := Open(Options{Dir: dir, Key: func() (seal.Key, error) { return seal.Key{}, locked }})
	if !errors.Is(err, locked) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("the folder was created")
	}
}

// TestKeyOfAFolder: a folder is refused with another key, and used after an import.
func TestKeyOfAFolder(t *testing.T) {
	dir := t.TempDir()
	mine, other := seal.NewKey(), seal.NewKey()
	with := func(k seal.Key) Options {
		return Options{Dir: dir, Key: func() (seal.Key, error) { return k, nil }}
	}
	open := func(o Options) error {
		c, err := Open(o)
		if err == nil {
			_, listErr := c.List(nil)
			err = errors.Join(listErr, c.Close())
		}
		return err
	}
	if err := open(with(mine)); err != nil || !Encrypted(dir) {
		t.Fatal(err)
	}
	// An entry, so that the folder is not empty.
	entry := filepath.Join(dir, "blocks", "ab", "ab"+strings.Repeat("0", 62)+".safetensors")
	if err := errors.Join(os.MkdirAll(filepath.Dir(entry), 0o700),
		os.WriteFile(entry, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]Options{"another key": with(other), "no key": {Dir: dir}} {
		if err := open(o); err == nil || problem.From(err).Code != problem.Locked {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := ExportKey(dir, other); err == nil || problem.From(err).Code != problem.Locked {
		t.Errorf("export with another key: %v", err)
	}
	text, err := ExportKey(dir, mine)
	if err != nil {
		t.Fatal(err)
	}
	for wrong, code := range map[string]problem.Code{"": problem.BadRequest,
		text + "0": problem.BadRequest, seal.FormatKey(mine): problem.BadRequest} {
		if err := ImportKey(dir, wrong, other); problem.From(err).Code != code {
			t.Errorf("import of %.30q: %v", wrong, err)
		}
	}
	if err := ImportKey(dir, text+"\n", other); err != nil {
		t.Fatal(err)
	}
	if err := open(with(other)); err != nil {
		t.Error(err)
	}
	if err := ImportKey(t.TempDir(), text, other); problem.From(err).Code != problem.NotFound {
		t.Errorf("import into an empty folder: %v", err)
	}
}
