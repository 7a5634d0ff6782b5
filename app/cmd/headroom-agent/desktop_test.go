//go:build e2e

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"headroom/app/tray"
)

// TestDesktop uses menu and window as a person does. It clicks the menu over D-Bus, as a panel
// does, and controls the window with the keyboard and the window manager. It runs the programs in
// bin/ on the desktop that build/desktop/run starts.
func TestDesktop(t *testing.T) {
	d := newDesktop(t)
	a := d.start("--no-start")
	item := a.trayItem()

	t.Log("stopped")
	item.showsIcon(tray.IconStopped)
	item.waitRow("Pause Watching Folders") // comes when the folders have been read once
	menu := item.menu()
	want := []string{"Stopped", "Start Engine", "Models", "Chats", "-",
		"[█▒░]{12}  .* GB available for a model",
		"SSD cache: .*", "Copy " + regexp.QuoteMeta(a.endpoint()),
		"Pause Watching Folders", "-", "Open Headroom", "Quit Headroom"}
	if got := menu.labels(); !matchAll(got, want) {
		t.Errorf("the menu has the rows %q, want %q", got, want)
	}
	if n := len(menu.visible()); n > 12 {
		t.Errorf("the menu has %d rows", n)
	}
	if chat := menu.row(t, "New Chat"); !chat.enabled() {
		t.Error("New Chat cannot be clicked")
	}
	if state := menu.row(t, "Stopped"); state.enabled() {
		t.Error("the status row can be clicked")
	}

	t.Log("one click starts the engine")
	item.click("Start Engine")
	a.waitStatus("ready")
	item.showsIcon(tray.IconReady)
	item.waitRow("Ready, headroom-demo")
	item.waitRow("Stop Engine")
	if model := item.waitRow("headroom-demo, 11\\.\\d MB"); !model.checked() {
		t.Error("the running model has no checkmark")
	}

	t.Log("OpenAI's client gets answers")
	app := exec.Command("node", "e2e/openai-client.mjs")
	app.Dir = filepath.FromSlash("../../../frontend")
	app.Env = append(os.Environ(), "HEADROOM_URL="+strings.TrimSuffix(a.endpoint(), "v1"))
	if output, err := app.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}

	t.Log("the icon shows that a request runs")
	cancel := a.startRequest()
	item.showsIcon(tray.IconBusy)
	item.waitRow("Answering, headroom-demo.*")
	cancel()
	a.waitStatus("ready")
	item.showsIcon(tray.IconReady)

	t.Log("the window")
	item.click("Open Headroom")
	w := a.waitWindow()
	w.waitDrawn()
	d.readmeScreenshot("overview", func() {
		w.move(170, 60) // so that the menu covers only the sidebar
		for range 3 {   // so that the charts have something to show
			a.waitSamples(2)
			a.startRequest()()
		}
		cancel := a.startRequest()
		defer cancel()
		a.waitSamples(2)
		d.openMenu()
	})

	t.Log("chat, by keyboard")
	w.keys("ctrl+2")
	w.waitChanged()
	for _, question := range []string{"What is a KV cache?", "What is 76 - 27?",
		"Tell me a story about Ada and a fox."} {
		before := a.endedRequests()
		w.typeText(question)
		w.keys("ctrl+Return")
		d.eventually("the question is answered", func() bool { return a.endedRequests() > before })
		w.waitStill()
	}

	t.Log("Escape in the window cancels the request in the engine")
	// 14,000 tokens, whose prefill takes seconds
	w.paste(strings.Repeat("The fox looked for the drum in the school. ", 1300))
	w.keys("ctrl+Return")
	d.eventually("the request runs", func() bool { return len(a.state().Requests) == 1 })
	w.keys("Escape")
	a.waitStatus("ready")
	d.eventually("the log says that the request was cancelled",
		func() bool { return strings.Contains(a.lastRequest(), "finish=cancelled") })

	t.Log("a click on the endpoint's row copies its address")
	item.click("Copy .*")
	d.waitClipboard(a.endpoint())

	t.Log("one click stops the engine, and a click on a model starts it")
	item.click("Stop Engine")
	a.waitStatus("stopped")
	item.showsIcon(tray.IconStopped)
	item.waitRow("Start Engine")
	item.click("headroom-demo, .*")
	a.waitStatus("ready")
	item.showsIcon(tray.IconReady)
	if model := item.waitRow("headroom-demo, .*"); !model.checked() {
		t.Error("the clicked model has no checkmark")
	}
	item.click("headroom-demo, .*")
	a.waitStatus("stopped")
	// Wait until the menu is redrawn: before that, GTK itself removes the checkmark.
	item.waitRow("Start Engine")
	d.eventually("the checkmark is gone",
		func() bool { return !item.menu().row(t, "headroom-demo, .*").checked() })
	item.click("headroom-demo, .*")
	a.waitStatus("ready")

	t.Log("watching is paused and resumed")
	item.click("Pause Watching Folders")
	d.eventually("watching is paused",
		func() bool { return strings.Contains(a.get("control/models"), `"paused":true`) })
	item.click("Resume Watching Folders")
	item.waitRow("Pause Watching Folders")

	t.Log("a second start shows the window of the first")
	second := d.start()
	second.waitEnd(0)
	if again := a.waitWindow(); again.id != w.id {
		t.Errorf("the window was %s and is now %s", w.id, again.id)
	}

	t.Log("closing the window does not end the agent")
	w.close()
	d.eventually("the window program has ended", func() bool { return !alive(w.pid) })
	if got := a.status(); got != "ready" {
		t.Errorf("after closing the window, the engine is %s", got)
	}

	t.Log("Quit ends the window and the endpoint")
	item.click("Open Headroom")
	w = a.waitWindow()
	item.click("Quit Headroom")
	a.waitEnd(0)
	d.eventually("the window program has ended", func() bool { return !alive(w.pid) })
	if a.answers() {
		t.Error("the endpoint still answers")
	}
}

// TestDesktopStartsAndEnds: a start resumes the state of the last one, and the programs end without
// a click on Quit.
func TestDesktopStartsAndEnds(t *testing.T) {
	d := newDesktop(t)

	t.Log("the first start runs the demo model")
	a := d.start()
	a.waitStatus("ready")
	a.trayItem().click("Stop Engine")
	a.waitStatus("stopped")
	a.signal(syscall.SIGTERM)
	a.waitEnd(0)

	t.Log("a stopped engine stays stopped")
	a = d.start()
	item := a.trayItem()
	item.waitRow("Stopped")
	item.click("Start Engine")
	a.waitStatus("ready")

	t.Log("the window ends when the agent is killed")
	item.click("Open Headroom")
	w := a.waitWindow()
	a.signal(syscall.SIGKILL)
	a.waitEnd(-1)
	d.eventually("the window program has ended", func() bool { return !alive(w.pid) })

	t.Log("the model that ran is resumed, on another port because the usual one is taken")
	takenPort := d.takePort()
	a = d.start("--open")
	a.waitStatus("ready")
	a.waitWindow()
	if url := a.endpoint(); strings.Contains(url, takenPort) {
		t.Errorf("the endpoint is %s", url)
	}
	a.trayItem().waitRow("Port " + takenPort + " is taken.*")
	a.signal(syscall.SIGINT)
	a.waitEnd(0)
}

// TestDesktopFirstLaunch: until the welcome was closed, the window opens by itself, but not for a
// login item.
func TestDesktopFirstLaunch(t *testing.T) {
	d := newDesktop(t)
	settings := filepath.Join(d.home, "config", "headroom", "settings.json")
	if err := os.Remove(settings); err != nil {
		t.Fatal(err)
	}
	a := d.start("--port", strconv.Itoa(d.port))
	w := a.waitWindow()
	a.waitStatus("ready") // the demo model is loaded without a click
	w.waitStill()
	d.screenshot("first-launch")
	d.eventually("Return has led through the welcome", func() bool {
		w.keys("Return")
		w.waitStill()
		return strings.Contains(a.get("control/settings"), `"welcomed":true`)
	})
	w.close()
	d.eventually("the window program has ended", func() bool { return !alive(w.pid) })
	a.signal(syscall.SIGINT)
	a.waitEnd(0)
	for _, c := range []struct {
		name, welcomed string
		arguments      []string
	}{
		{"a second launch", "true", nil},
		{"a login item before the welcome was closed", "false", []string{"--no-open"}},
	} {
		t.Log(c.name)
		text := `{"version":1,"welcomed":` + c.welcomed + `}`
		if err := os.WriteFile(settings, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		a := d.start(append(c.arguments, "--no-start", "--port", strconv.Itoa(d.port))...)
		a.trayItem().waitRow("Stopped") // all that a start does is done
		if list, _ := exec.Command("wmctrl", "-l").Output(); strings.Contains(string(list),
			"Headroom") {
			t.Errorf("%s opens a window: %s", c.name, list)
		}
		a.signal(syscall.SIGINT)
		a.waitEnd(0)
	}
}

func matchAll(got, want []string) bool {
	if len(got) != len(want) {
		return false
	}
	for i := range got {
		if !regexp.MustCompile("^" + want[i] + "$").MatchString(got[i]) {
			return false
		}
	}
	return true
}
