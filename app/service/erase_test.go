package service

import (
	"os"
	"path/filepath"
	"testing"

	"headroom/app/settings"
	"headroom/app/stored"
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
