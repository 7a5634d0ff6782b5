package service

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headroom/app/cache"
	"headroom/app/settings"
	"headroom/app/stored"
	"headroom/engine/seal"
)

// TestSetAside resets settings beside damaged ones that were set aside and files of others, which
// stay. The API key stays, too.
func TestSetAside(t *testing.T) {
	dir := t.TempDir()
	file, err := settings.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := file.Change(func(s *settings.Settings) {
		s.APIKey, s.IdleUnloadMinutes = "secret", 5
	}); err != nil {
		t.Fatal(err)
	}
	gone := map[string]bool{"settings.json.damaged-1": true, "settings.json.damaged-12": true,
		"settings.json.damaged-old": false, "settings.json.damaged-0": false,
		"my settings.json.damaged-1": false, "selftest.json": false,
		".settings.json815": true, ".settings.json": false, ".settings.json8x": false}
	for name := range gone {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "settings.json.damaged-2"), 0o700); err != nil {
		t.Fatal(err)
	}
	var deleted stored.Deleted
	resetSettings(file, &deleted, stored.Item{Kind: stored.Settings})
	for name, expected := range gone {
		if _, err := os.Stat(filepath.Join(dir, name)); os.IsNotExist(err) != expected {
			t.Errorf("%s: %v, expected it to be gone: %t", name, err, expected)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "settings.json.damaged-2")); err != nil {
		t.Error("a folder of that name:", err)
	}
	if s := file.Get(); s.APIKey != "secret" || s.IdleUnloadMinutes != 0 || len(deleted.Left) > 0 {
		t.Errorf("%+v, %+v, expected defaults with the API key", s, deleted)
	}
}

// TestKeysAndAgentsAreListed: the files of keys, tokens and agents are listed, also those that were
// set aside.
func TestKeysAndAgentsAreListed(t *testing.T) {
	dir := t.TempDir()
	file, err := settings.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"key", "keys.json", "key-usage.json", "token",
		"token.set-aside-1", "agents/codex.json", "agents/codex-config.toml.before-1"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	list := data{settings: file}.list()
	for kind, want := range map[stored.Kind]int{stored.Keys: 5, stored.Agents: 2} {
		if one := before(list, kind); one.Files != want || one.Bytes != int64(4*want) {
			t.Errorf("%+v, want %d files", one, want)
		}
	}
}

// TestForeignCacheStays: a cache that another installation has encrypted is refused, and so it is
// neither remembered nor deleted, though the settings name its folder.
func TestForeignCacheStays(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	folders := cache.OpenFolders(filepath.Join(t.TempDir(), "caches"))
	open := func(key seal.Key, in *cache.Folders) error {
		c, err := cache.Open(cache.Options{Dir: dir, Folders: in,
			Key: func() (seal.Key, error) { return key, nil }})
		if err == nil {
			err = c.Close()
		}
		return err
	}
	own, other := seal.NewKey(), seal.NewKey()
	if err := open(other, nil); err != nil {
		t.Fatal(err)
	}
	if err := open(own, folders); err == nil {
		t.Fatal("the cache of another installation is opened")
	}
	d := data{folders: folders, cacheDirs: []string{dir}}
	if left := d.eraseCache(dir); len(folders.List()) > 0 || !cache.Exists(dir) ||
		!strings.Contains(left, "another installation's") {
		t.Errorf("remembered %q, exists %t, left %q", folders.List(), cache.Exists(dir), left)
	}
	if err := open(other, folders); err != nil { // now it is this installation's
		t.Fatal(err)
	}
	if left := d.eraseCache(dir); cache.Exists(dir) || left != "" {
		t.Errorf("its own cache is left: %q", left)
	}
}
