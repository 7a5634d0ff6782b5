//go:build e2e

package main

import (
	"bytes"
	"fmt"
	"image"
	"image/png"
	"os/exec"
	"strconv"
	"strings"
)

// shownWindow is the window on the screen.
type shownWindow struct {
	p    *program
	id   string // X11 window ID
	pid  int
	last []byte // the last screenshot
}

// waitWindow waits until a window with the title Headroom is shown.
func (p *program) waitWindow() *shownWindow {
	p.t.Helper()
	w := &shownWindow{p: p}
	p.eventually("there is a window", func() bool {
		out, err := exec.Command("wmctrl", "-l", "-p").Output() // fails without windows
		if err != nil {
			return false
		}
		for line := range strings.Lines(string(out)) {
			// 0x00c0000e  0 13748  machine Headroom
			if f := strings.Fields(line); len(f) == 5 && f[4] == "Headroom" {
				w.id = f[0]
				w.pid, _ = strconv.Atoi(f[2])
			}
		}
		return w.id != "" && alive(w.pid)
	})
	return w
}

// picture returns a screenshot of the window.
func (w *shownWindow) picture() image.Image {
	w.p.t.Helper()
	w.last = w.p.output("import", "-window", w.id, "png:-")
	picture, err := png.Decode(bytes.NewReader(w.last))
	if err != nil {
		w.p.t.Fatal(err)
	}
	return picture
}

// waitDrawn waits until the page shows a running engine: its switch then has the accent color.
func (w *shownWindow) waitDrawn() {
	w.p.t.Helper()
	w.p.eventually("the page is drawn", func() bool { return len(teal(w.picture())) > 500 })
}

// waitChanged waits until the window differs from the last screenshot.
func (w *shownWindow) waitChanged() {
	w.p.t.Helper()
	before := w.last
	w.p.eventually("the page changes",
		func() bool { w.picture(); return !bytes.Equal(before, w.last) })
}

// waitStill waits until two consecutive screenshots are equal.
func (w *shownWindow) waitStill() {
	w.p.t.Helper()
	w.p.eventually("the page is still", func() bool {
		before := w.last
		w.picture()
		return bytes.Equal(before, w.last)
	})
}

func (w *shownWindow) keys(keys ...string) {
	w.p.t.Helper()
	w.p.output("wmctrl", "-i", "-a", w.id)
	w.p.output("xdotool", append([]string{"key", "--clearmodifiers"}, keys...)...)
}

func (w *shownWindow) typeText(text string) {
	w.p.t.Helper()
	w.p.output("xdotool", "type", "--clearmodifiers", text)
}

// paste pastes a text, which is faster than typing it.
func (w *shownWindow) paste(text string) {
	w.p.t.Helper()
	command := exec.Command("xclip", "-in", "-selection", "clipboard")
	command.Stdin = strings.NewReader(text)
	if err := command.Run(); err != nil {
		w.p.t.Fatal(err)
	}
	w.keys("ctrl+v")
}

func (w *shownWindow) move(x, y int) {
	w.p.t.Helper()
	w.p.output("wmctrl", "-i", "-r", w.id, "-e", fmt.Sprintf("0,%d,%d,-1,-1", x, y))
}

// close closes the window, as its close button does.
func (w *shownWindow) close() {
	w.p.t.Helper()
	w.p.output("wmctrl", "-i", "-c", w.id)
}
