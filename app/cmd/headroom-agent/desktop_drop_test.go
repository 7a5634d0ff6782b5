//go:build e2e

package main

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"headroom/app/host"
)

// TestDrop drags a model's folder from another program onto the window, as a user does from a file
// manager. The model is then in the list.
func TestDrop(t *testing.T) {
	d := newDesktop(t)
	const name = `Ada's "Völlig" neues Modell`
	folder := filepath.Join(d.home, "Downloads", name)
	if err := os.CopyFS(folder, os.DirFS("../../demo/model")); err != nil {
		t.Fatal(err)
	}
	a := d.start("--open")
	w := a.waitWindow()
	w.waitDrawn()
	w.move(250, 60)

	source := d.dragSource(folder)
	w.waitStill()
	fromX, fromY := d.middle(source)
	toX, toY := d.middle(w.id)
	steps := []string{"mousemove", fromX, fromY, "mousedown", "1", "mousemove_relative", "8", "0",
		"sleep", "0.2", "mousemove_relative", "20", "4"}
	for range 4 { // a drag starts only when the pointer moves
		steps = append(steps, "sleep", "0.2", "mousemove", toX, toY, "mousemove_relative", "4", "4")
	}
	d.output("xdotool", steps...)
	w.waitChanged() // the window shows the drop target
	d.screenshot("drop")
	d.output("xdotool", "mouseup", "1")

	// The sheet describes the import. Return confirms it.
	d.eventually("the model is in the list", func() bool {
		w.waitStill()
		w.keys("Return")
		return slices.Contains(a.modelNames(), name)
	})
	if entries, err := os.ReadDir(folder); err != nil || len(entries) == 0 {
		t.Errorf("the dragged folder contains %v, %v", entries, err)
	}
	a.signal(syscall.SIGTERM)
	a.waitEnd(0)
}

// modelNames returns the names in the model list, nil if the agent does not answer.
func (p *program) modelNames() (names []string) {
	answer, err := p.request("GET", "control/models", "")
	if err != nil {
		return nil
	}
	defer answer.Body.Close()
	var list host.ModelList
	if json.NewDecoder(answer.Body).Decode(&list) == nil {
		for _, m := range list.Models {
			names = append(names, m.Name)
		}
	}
	return names
}

// dragSource starts a program with a window from which the paths can be dragged. It returns the
// window's ID.
func (d *desktop) dragSource(paths ...string) string {
	d.t.Helper()
	script, err := filepath.Abs("../../../build/desktop/dragsource.py")
	if err != nil {
		d.t.Fatal(err)
	}
	// Use the system's Python, which has GTK.
	command := exec.Command("/usr/bin/python3", append([]string{script}, paths...)...)
	command.Stderr = os.Stderr
	out, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { _ = command.Process.Kill(); _ = command.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		d.t.Fatalf("the drag source printed %q, %v. Install what it needs: build/setup test", line,
			err)
	}
	return strings.TrimSpace(
		string(d.output("xdotool", "search", "--onlyvisible", "--name", "^dragsource$")))
}

// middle returns the center of a window on the screen.
func (d *desktop) middle(id string) (x, y string) {
	d.t.Helper()
	// WINDOW=..., X=..., Y=..., WIDTH=..., HEIGHT=..., SCREEN=..., one per line
	found := map[string]int{}
	for line := range strings.Lines(
		string(d.output("xdotool", "getwindowgeometry", "--shell", id))) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		found[key], _ = strconv.Atoi(value)
	}
	return strconv.Itoa(found["X"] + found["WIDTH"]/2), strconv.Itoa(found["Y"] + found["HEIGHT"]/2)
}
