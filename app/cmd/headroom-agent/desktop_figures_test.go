//go:build e2e

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// figure is one row of the table that `make bench-window` prints. frontend/e2e/bench.mjs reads it.
type figure struct {
	Name    string    `json:"name"`
	Unit    string    `json:"unit"`
	Samples []float64 `json:"samples"`
}

// TestFigures measures the programs in bin/ on the desktop: the memory of agent, model and window,
// and the time until the window shows its page. It checks no limits. It runs only if
// HEADROOM_FIGURES names a file for the results. SAMPLES sets the number of samples, 5 by default.
//
// Memory is the proportional set size, which divides shared memory among the processes that share
// it. So the sizes of several processes can be added.
func TestFigures(t *testing.T) {
	file := os.Getenv("HEADROOM_FIGURES")
	if file == "" {
		t.Skip("HEADROOM_FIGURES is not set; make bench-window sets it")
	}
	samples := 5
	if n, err := strconv.Atoi(os.Getenv("SAMPLES")); err == nil && n > 0 {
		samples = n
	}
	paint := figure{Name: "Window: click to first paint", Unit: "ms"}
	window := figure{Name: "Window: memory, WebKit's processes included", Unit: "MB"}
	agent := figure{Name: "Agent: memory, no model loaded", Unit: "MB"}
	serving := figure{Name: "Agent and model process: memory after a request", Unit: "MB"}
	model := figure{Name: "Model process alone: memory after a request", Unit: "MB"}
	for range samples {
		d := newDesktop(t)
		a := d.start("--no-start")
		item := a.trayItem()
		item.waitRow("Start Engine")
		agent.add(pssMB(t, a.command.Process.Pid))

		item.click("Start Engine")
		a.waitStatus("ready")
		a.startRequest()()
		a.waitStatus("ready")
		worker := a.worker()
		model.add(pssMB(t, worker))
		serving.add(pssMB(t, a.command.Process.Pid, worker))

		clicked := time.Now()
		item.click("Open Headroom")
		w := a.waitWindow()
		d.eventually("the window shows its page", func() bool { return w.hasContent() })
		paint.add(float64(time.Since(clicked).Milliseconds()))
		w.waitDrawn()
		w.waitStill()
		window.add(pssMB(t, processTree(t, w.pid)...))
		item.click("Quit Headroom")
		a.waitEnd(0)
	}
	text, err := json.Marshal([]figure{paint, window, agent, serving, model})
	if err == nil {
		err = os.WriteFile(file, text, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (f *figure) add(sample float64) { f.Samples = append(f.Samples, sample) }

// hasContent reports whether the window shows its page: text and icons have many shades, a blank
// window has one. A call takes about 50 ms.
func (w *shownWindow) hasContent() bool {
	out := w.p.output("import", "-window", w.id, "-crop", "200x240+0+0", "+repage", "-depth", "8",
		"rgb:-")
	shades := map[[3]byte]bool{}
	for i := 0; i+3 <= len(out); i += 3 {
		shades[[3]byte(out[i:i+3])] = true
	}
	return len(shades) > 50
}

// pssMB returns the sum of the processes' proportional set sizes.
func pssMB(t *testing.T, pids ...int) (sum float64) {
	t.Helper()
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		if err != nil {
			t.Fatal(err)
		}
		_, line, found := strings.Cut(string(text), "\nPss:")
		fields := strings.Fields(line)
		if !found || len(fields) == 0 {
			t.Fatalf("process %d: no Pss in smaps_rollup:\n%s", pid, text)
		}
		kib, err := strconv.ParseFloat(fields[0], 64)
		if err != nil {
			t.Fatal(err)
		}
		sum += kib * 1024 / 1e6
	}
	return sum
}

// processTree returns a process and all of its descendants.
func processTree(t *testing.T, pid int) (pids []int) {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	children := map[int][]int{}
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // the process has ended
		}
		var child, parent int
		var state string
		_, rest, _ := strings.Cut(string(text), ") ") // the name may contain anything
		_, _ = fmt.Sscan(string(text), &child)
		_, _ = fmt.Sscan(rest, &state, &parent)
		children[parent] = append(children[parent], child)
	}
	pids = []int{pid}
	for i := 0; i < len(pids); i++ {
		pids = append(pids, children[pids[i]]...)
	}
	return slices.Clip(pids)
}
