//go:build e2e

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDesktopAgents sets up Codex in the window by the keyboard alone, and undoes it: nothing is
// written before it is asked for, and the file is the same bytes in the end.
func TestDesktopAgents(t *testing.T) {
	d := newDesktop(t)
	t.Setenv("CODEX_HOME", "")
	file := filepath.Join(d.home, ".codex", "config.toml")
	const before = "# mine\nmodel = \"gpt\"   # the best\n\n[tui]\ntheme = \"dark\""
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(before), 0o640); err != nil {
		t.Fatal(err)
	}
	text := func() string {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	a := d.start("--start")
	a.trayItem().click("Open Headroom")
	w := a.waitWindow()
	w.waitDrawn()
	a.waitStatus("ready")
	press := func(key string, times int) {
		for range times {
			w.keys(key)
		}
	}
	w.picture()
	w.keys("ctrl+7")
	w.waitChanged()
	w.waitStill()
	// The model, then documentation, launch and set-up of Claude Code, then those of Codex.
	press("Tab", 7)
	w.keys("Return")
	w.waitChanged()
	w.waitStill()
	d.screenshot("agents")
	if text() != before {
		t.Fatalf("written before it was asked for:\n%s", text())
	}
	// From the close button: the changes, Cancel, Write.
	press("Tab", 3)
	w.keys("Return")
	a.eventually("Codex is set up", func() bool {
		return strings.Contains(text(), "base_url = \""+strings.TrimSuffix(a.endpoint(), "/")) &&
			strings.Contains(text(), "# the best")
	})
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("%v, mode %v", err, info.Mode())
	}
	w.waitStill()
	w.keys("shift+Tab") // the focus came back to the button, and Undo is before it
	w.keys("Return")
	w.waitChanged()
	w.waitStill()
	press("Tab", 3)
	w.keys("Return")
	a.eventually("the file is as it was", func() bool { return text() == before })
}
