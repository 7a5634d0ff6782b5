//go:build e2e

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headroom/app/window"
)

// TestDesktopFrame closes a window and opens it again: it has the size and the place that it had.
// Then a click on New Chat opens it on the page Chat, which takes a question by the keyboard.
func TestDesktopFrame(t *testing.T) {
	d := newDesktop(t)
	a := d.start("--start")
	item := a.trayItem()
	item.click("Open Headroom")
	w := a.waitWindow()
	w.waitDrawn()
	w.p.output("wmctrl", "-i", "-r", w.id, "-e", "0,40,60,900,640")
	w.waitStill()
	placed := geometry(t, w)
	w.close()
	a.eventually("the window has ended", func() bool { return !alive(w.pid) })

	file := filepath.Join(d.home, "config", "headroom", "window.json")
	var look window.Look
	data, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(data, &look)
	}
	if err != nil || look.Width != 900 || look.Height != 640 || !look.Placed || look.Dark {
		t.Fatalf("%s: %s, %v", file, data, err)
	}

	item.click("New Chat")
	w = a.waitWindow()
	w.waitDrawn()
	w.waitStill()
	if got := geometry(t, w); got != placed {
		t.Errorf("the window is at %q, was at %q", got, placed)
	}
	a.waitStatus("ready")
	w.typeText("What is 76 - 27?")
	w.keys("Return")
	item.waitRow("What is 76 - 27\\?.*") // among the chats of the menu
}

// geometry returns the place and size of a window, as the window manager lists them.
func geometry(t *testing.T, w *shownWindow) string {
	t.Helper()
	for line := range strings.Lines(string(w.p.output("wmctrl", "-l", "-G"))) {
		if f := strings.Fields(line); len(f) > 6 && f[0] == w.id {
			return strings.Join(f[2:6], " ")
		}
	}
	t.Fatal("the window is not listed")
	return ""
}
