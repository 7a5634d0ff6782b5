package cache

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"headroom/engine"
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
