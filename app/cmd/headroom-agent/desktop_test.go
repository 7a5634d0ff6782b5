//go:build e2e

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"headroom/app/tray"
)

// TestDesktop uses tray and window as a person does: the menu over D-Bus, as a panel clicks it; the
// window through the window manager and the keyboard. It runs the programs in bin/ on the desktop
// that build/desktop/run makes.
func TestDesktop(t *testing.T) {
	d := newDesktop(t)
	a := d.start("--no-start")
	item := a.trayItem()

	t.Log("stopped")
	item.showsIcon(tray.IconStopped)
	menu := item.menu()
	want := []string{"Stopped", "Start Engine", "Models", "-", "Room for .* GB more",
		"SSD cache: .*", "Copy " + regexp.QuoteMeta(a.endpoint()),
		"Pause Watching Folders", "-", "Open Headroom", "Quit Headroom"}
	if got := menu.labels(); !matchAll(got, want) {
		t.Errorf("the menu says %q, want %q", got, want)
	}
	if len(menu.Children) > 12 {
		t.Errorf("the menu has %d rows", len(menu.Children))
	}
	if state := menu.row(t, "Stopped"); state.enabled() {
		t.Error("the state line can be clicked")
	}

	t.Log("one click starts the engine")
	item.click("Start Engine")
	a.waitStatus("ready")
	item.showsIcon(tray.IconReady)
	item.waitRow("Ready, headroom-demo")
	item.waitRow("Stop Engine")
	if model := item.waitRow("headroom-demo, 11\\.\\d MB"); !model.checked() {
		t.Error("the running model has no mark")
	}

	t.Log("an app gets answers: OpenAI's own client")
	app := exec.Command("node", "e2e/openai-client.mjs")
	app.Dir = filepath.FromSlash("../../../frontend")
	app.Env = append(os.Environ(), "HEADROOM_URL="+strings.TrimSuffix(a.endpoint(), "v1"))
	if said, err := app.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}

	t.Log("the icon follows a request")
	end := a.askAtLength()
	item.showsIcon(tray.IconBusy)
	item.waitRow("Answering, headroom-demo.*")
	end()
	a.waitStatus("ready")
	item.showsIcon(tray.IconReady)

	t.Log("the window")
	item.click("Open Headroom")
	w := a.waitWindow()
	w.waitDrawn()
	d.poseFor("overview", func() {
		w.move(170, 60) // the menu then lies over the sidebar alone
		for range 3 {   // something for the charts to show
			a.waitSamples(2)
			a.askAtLength()()
		}
		end := a.askAtLength()
		defer end()
		a.waitSamples(2)
		d.openMenu()
	})

	t.Log("chat, by keyboard")
	w.keys("ctrl+2")
	w.waitChanged()
	for _, question := range []string{"What is a KV cache?", "What is 76 - 27?",
		"Tell me a story about Ada and a fox."} {
		before := a.answered()
		w.typeText(question)
		w.keys("ctrl+Return")
		d.eventually("the question is answered", func() bool { return a.answered() > before })
		w.waitStill()
	}

	t.Log("Escape ends an answer, through the window, down to the engine")
	// 14,000 tokens: seconds to read
	w.paste(strings.Repeat("The fox looked for the drum in the school. ", 1300))
	w.keys("ctrl+Return")
	d.eventually("the prompt is being read", func() bool { return len(a.state().Requests) == 1 })
	w.keys("Escape")
	a.waitStatus("ready")
	d.eventually("the log says so",
		func() bool { return strings.Contains(a.lastRequest(), "finish=cancelled") })

	t.Log("the endpoint's row copies its address")
	item.click("Copy .*")
	d.waitClipboard(a.endpoint())

	t.Log("one click stops, and the model's row starts again")
	item.click("Stop Engine")
	a.waitStatus("stopped")
	item.showsIcon(tray.IconStopped)
	item.waitRow("Start Engine")
	item.click("headroom-demo, .*")
	a.waitStatus("ready")
	item.showsIcon(tray.IconReady)
	if model := item.waitRow("headroom-demo, .*"); !model.checked() {
		t.Error("the model that was clicked has no mark")
	}
	item.click("headroom-demo, .*")
	a.waitStatus("stopped")
	// the menu was drawn again; GTK takes the mark away by itself, before that
	item.waitRow("Start Engine")
	d.eventually("the mark is gone",
		func() bool { return !item.menu().row(t, "headroom-demo, .*").checked() })
	item.click("headroom-demo, .*")
	a.waitStatus("ready")

	t.Log("watching is paused, and goes on")
	item.click("Pause Watching Folders")
	d.eventually("it is paused",
		func() bool { return strings.Contains(a.get("api/models"), `"paused":true`) })
	item.click("Resume Watching Folders")
	item.waitRow("Pause Watching Folders")

	t.Log("a second start shows the window of the first")
	second := d.start()
	second.waitEnd(0)
	if again := a.waitWindow(); again.id != w.id {
		t.Errorf("window %s, then another: %s", w.id, again.id)
	}

	t.Log("closing the window leaves the agent")
	w.close()
	d.eventually("the window program has ended", func() bool { return !alive(w.pid) })
	if got := a.status(); got != "ready" {
		t.Errorf("without its window the engine is %s", got)
	}

	t.Log("open again, and quit: nothing is left")
	item.click("Open Headroom")
	w = a.waitWindow()
	item.click("Quit Headroom")
	a.waitEnd(0)
	d.eventually("the window program has ended", func() bool { return !alive(w.pid) })
	if a.answers() {
		t.Error("the endpoint still answers")
	}
}

// What the next start resumes, and how the programs end when nobody clicks Quit.
func TestDesktopStartsAndEnds(t *testing.T) {
	d := newDesktop(t)

	t.Log("the first start runs the demo model")
	a := d.start()
	a.waitStatus("ready")
	a.trayItem().click("Stop Engine")
	a.waitStatus("stopped")
	a.signal(syscall.SIGTERM)
	a.waitEnd(0)

	t.Log("what was stopped stays stopped")
	a = d.start()
	item := a.trayItem()
	item.waitRow("Stopped")
	item.click("Start Engine")
	a.waitStatus("ready")

	t.Log("a killed agent takes its window with it")
	item.click("Open Headroom")
	w := a.waitWindow()
	a.signal(syscall.SIGKILL)
	a.waitEnd(-1)
	d.eventually("the window program has ended", func() bool { return !alive(w.pid) })

	t.Log("what ran is resumed, on another port if that one is taken")
	blocker := d.takePort()
	a = d.start("--open")
	a.waitStatus("ready")
	a.waitWindow()
	if url := a.endpoint(); strings.Contains(url, blocker) {
		t.Errorf("the endpoint is %s", url)
	}
	a.trayItem().waitRow("Port " + blocker + " is taken.*")
	a.signal(syscall.SIGINT)
	a.waitEnd(0)
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
