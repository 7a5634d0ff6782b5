package library

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"headroom/engine"
)

// TestReveal: Reveal runs the system's command for a place of the model, and for no other path.
func TestReveal(t *testing.T) {
	if runtime.GOOS == "darwin" {
		t.Skip("it would open the Finder")
	}
	root, bin := t.TempDir(), t.TempDir()
	opened := filepath.Join(bin, "opened") // the fake xdg-open writes its argument to this file
	if err := os.WriteFile(filepath.Join(bin, "xdg-open"),
		[]byte("#!/bin/sh\nprintf %s \"$1\" > '"+opened+"'\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin)
	plant(t, root, "m/config.json = x", "loose.gguf = x")
	l := New([]string{root}, engine.Options{}, (&fakeDescribe{}).describe)
	model := func(id string) Model {
		m, _ := byName(l.Scan(), id)
		return m
	}
	for _, c := range []struct{ id, path, want string }{
		{"m", "", filepath.Join(root, "m")},
		{"m", filepath.Join(root, "m"), filepath.Join(root, "m")},
		{"loose", "", root}, // a file is shown in its folder
		{"m", "/etc", "is not in /etc"},
		{"headroom-demo", "", "has no folder"},
	} {
		_ = os.Remove(opened)
		err := l.Reveal(model(c.id), c.path)
		shown, _ := os.ReadFile(opened)
		if got := string(shown); err != nil && !strings.Contains(err.Error(), c.want) ||
			err == nil && got != c.want {
			t.Errorf("%s %s: shown %q, %v; want %q", c.id, c.path, got, err, c.want)
		}
	}
	m := model("m")
	t.Setenv("PATH", t.TempDir())
	if err := l.Reveal(m, ""); err == nil || !strings.Contains(err.Error(), "cannot be shown") {
		t.Errorf("without the command: %v", err)
	}
	if err := os.RemoveAll(m.Dir); err != nil {
		t.Fatal(err)
	}
	if err := l.Reveal(m, ""); err == nil || !strings.Contains(err.Error(), "no longer exists") {
		t.Errorf("after the folder was removed: %v", err)
	}
}
