package main

// The agent from start to end: it takes the lock, opens the port, draws the menu, resumes the model
// that ran last, and releases everything at the end. After the start, the menu shows failures,
// because nobody reads the output of a menu-bar program.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/getlantern/systray"

	"headroom/app/commands"
	"headroom/app/control"
	"headroom/app/host"
	"headroom/app/login"
	"headroom/app/notify"
	"headroom/app/service"
	"headroom/app/settings"
	"headroom/app/tray"
	"headroom/app/update"
	"headroom/app/window"
	"headroom/engine/problem"
)

// agent holds the parts of the program.
type agent struct {
	instance *instance
	settings *settings.File
	service  *service.Service
	window   *window.Supervisor
	// portNotice says why the port in the settings is not the open one; "" if it is.
	portNotice string
	failure    atomic.Pointer[string] // why the last menu command failed; nil if it succeeded

	context context.Context // ends when the agent closes
	cancel  context.CancelFunc
	running sync.WaitGroup // the goroutines that close waits for
}

// newAgent takes the lock and opens the port. If another agent is running, it asks that agent to
// open its window and returns nil.
func newAgent(f flags) (*agent, error) {
	dir, err := control.SettingsDir()
	if err != nil {
		return nil, err
	}
	a := &agent{}
	if a.instance, err = claim(dir); errors.Is(err, errClaimed) {
		slog.Info("Headroom is already running: opening its window")
		return nil, showFirst(dir)
	} else if err != nil {
		return nil, err
	}
	if a.settings, err = control.OpenSettings(dir); err != nil {
		slog.Warn("not all settings apply", "err", err)
	}
	f.logs.SetLevel(a.logLevel(f))
	if err := a.listen(f); err != nil {
		a.instance.release()
		return nil, err
	}
	if a.service.Updates.Started() {
		a.service.Close()
		a.instance.release()
		return nil, startAgain()
	}
	path, err := window.Find()
	if err != nil {
		slog.Warn("the window cannot be opened", "err", err)
	}
	a.window = window.New(window.Options{Path: path, URL: a.url(), Token: a.service.Token,
		State: filepath.Join(dir, "window.json")})
	a.context, a.cancel = context.WithCancel(context.Background())
	return a, a.instance.announce(a.url())
}

// healthyAfter is how long a fresh version has to run to be kept; see update.Updater.Started.
const healthyAfter = time.Minute

// startAgain replaces this process by the program that is installed now. It returns only an error.
func startAgain() error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	return syscall.Exec(program, os.Args, os.Environ())
}

// logLevel returns the log level of the command line, or else of the settings.
func (a *agent) logLevel(f flags) (level slog.Level) {
	if f.LogLevel != nil {
		return *f.LogLevel
	}
	if text := a.settings.Get().LogLevel; text != "" {
		_ = level.UnmarshalText([]byte(text)) // settings.Open has checked it
	}
	return level
}

// readOnlySettings returns the keys of the settings that flags override.
func (f *flags) readOnlySettings() (readOnly []string) {
	if f.Port != nil {
		readOnly = append(readOnly, "port")
	}
	if f.LogLevel != nil {
		readOnly = append(readOnly, "logLevel")
	}
	return readOnly
}

// loginItem returns the login item of this program; nil if the system has none.
func loginItem() control.LoginItem {
	program, err := os.Executable()
	if err == nil {
		var item *login.Item
		if item, err = login.New(program); err == nil {
			return item
		}
	}
	slog.Warn("Headroom cannot be started at login", "err", err)
	return nil
}

func (a *agent) url() string { return "http://" + a.service.Address + "/" }

// listen opens the port. If the port in the settings is taken, it opens any free one. If the port
// on the command line is taken, it returns the error.
func (a *agent) listen(f flags) (err error) {
	s := a.settings.Get()
	o := commands.ModelFlags{ModelsDir: s.ModelFolders}.ServiceOptions(
		commands.ServiceUse{LastModel: cmp.Or(s.DefaultModel, s.Model)})
	o.Listen, o.Port, o.Settings, o.ShowWindow = "127.0.0.1", s.Port, a.settings, a.show
	o.Logs, o.ReadOnly, o.Login = f.logs, f.readOnlySettings(), loginItem()
	if f.Port != nil {
		o.Port = *f.Port
	}
	if s.OllamaPort {
		o.AlsoPort = service.OllamaPort
	}
	a.service, err = service.New(o)
	if err == nil || f.Port != nil || problem.From(err).Code != problem.PortTaken {
		return err
	}
	taken := problem.From(err)
	slog.Warn("the port is taken: using another one", "err", err)
	a.portNotice = fmt.Sprintf("%s: %s", taken.Message, taken.Why)
	o.Port = 0
	a.service, err = service.New(o)
	return err
}

// begin starts the agent's goroutines. systray calls it when the icon can be shown.
func (a *agent) begin(f flags) {
	slog.Info("Headroom is running", "endpoint", a.url()+"v1")
	nameIcon()
	a.running.Go(func() {
		if err := a.service.Serve(a.context); err != nil {
			slog.Error("the endpoint ended", "err", err)
			systray.Quit()
		}
	})
	menu, copyWorks := tray.New(nativeTray{}, a.act), canCopy()
	recent := recentChats{store: a.service.Chats(), version: -1}
	a.running.Go(func() {
		menu.Follow(a.context, a.service.Host, func(s host.State) tray.State {
			var list host.ModelList
			if a.service.Host.Listed() { // the menu does not wait for the first scan
				list = a.service.Host.Models(0)
			}
			now := a.settings.Get()
			t := tray.State{State: s, Models: list.Models, Watch: list.Watch,
				Recent: now.Recent, CanCopy: copyWorks, Notice: a.portNotice,
				Chats: recent.list(), Downloads: downloads(a.service.Jobs().Jobs()),
				Figure: tray.Figure(now.MenuBarFigure), Update: a.update()}
			if n := s.Engine.Notice; n != nil && t.Notice == "" {
				t.Notice = n.Message
			}
			if failure := a.failure.Load(); failure != nil {
				t.Notice = *failure
			}
			return t
		})
	})
	a.running.Go(a.saveState)
	a.running.Go(func() {
		select {
		case <-time.After(healthyAfter):
			a.service.Updates.Healthy()
		case <-a.context.Done():
		}
	})
	a.running.Go(func() {
		notify.Follow(a.context,
			notify.Options{Host: a.service.Host, Jobs: a.service.Jobs(), Service: notify.New(),
				Clicked: a.clicked, Update: a.update,
				On: func() bool { return a.settings.Get().Notifications }})
	})
	start := a.settings.Get().StartsEngine()
	if f.Start != nil {
		start = *f.Start
	}
	// Without a window nobody would notice the first start: the icon may be behind a notch. A login
	// item says --no-open.
	open := !a.settings.Get().Welcomed
	if f.Open != nil {
		open = *f.Open
	}
	if open {
		a.act(tray.Action{Verb: tray.Open})
	}
	if start {
		started := a.service.Host.StartLater("")
		a.running.Go(func() {
			select {
			case err := <-started:
				a.acted(tray.Start, err)
			case <-a.context.Done():
			}
		})
	}
}

// clicked handles a click on a notification.
func (a *agent) clicked(n notify.Notice) {
	if n.Start != "" {
		a.act(tray.Action{Verb: tray.Start, Text: n.Start})
		return
	}
	a.act(tray.Action{Verb: tray.Open, Text: n.Place})
}

// update returns the newer version that is known, if any.
func (a *agent) update() update.Known {
	s := a.service.Updates.Status()
	if s.GoesBack || s.Phase != update.Available && s.Phase != update.Ready {
		return update.Known{}
	}
	return update.Known{Version: s.Version, Ready: s.Phase == update.Ready}
}

// act does what a click in the menu asks for.
func (a *agent) act(action tray.Action) {
	var err error
	switch action.Verb {
	case tray.Start:
		err = a.service.Host.Start(action.Text)
	case tray.Stop:
		if action.Text == "" {
			a.service.Host.Stop()
		} else {
			err = a.service.Host.StopModel(action.Text)
		}
	case tray.Copy:
		err = copyText(action.Text)
	case tray.Pause, tray.Resume:
		err = a.service.Host.PauseWatching(action.Verb == tray.Pause)
	case tray.Open:
		err = a.window.ShowAt(action.Text)
	case tray.Quit:
		systray.Quit()
	}
	a.acted(action.Verb, err)
}

// acted notes the error of an action for the menu; nil removes an earlier one.
func (a *agent) acted(verb tray.Verb, err error) {
	if err == nil {
		a.failure.Store(nil)
		return
	}
	slog.Error("a menu command failed", "action", verb, "err", err)
	message := problem.From(err).Message
	a.failure.Store(&message)
}

// show opens the window. The control API calls it, too, when Headroom is started a second time.
func (a *agent) show() error { return a.window.Show() }

// saveState saves in the settings which model the next start resumes, until the agent closes.
func (a *agent) saveState() {
	changed, done := a.service.Host.Subscribe()
	defer done()
	var before host.EngineState
	for {
		now := a.service.Host.State().Engine
		err := a.settings.Note(func(s *settings.Settings) { noteState(s, before, now) })
		if err != nil {
			slog.Warn("the settings cannot be saved", "err", err)
		}
		before = now
		select {
		case <-a.context.Done():
			return
		case <-changed:
		}
	}
}

// maxRecent bounds the list of recent models.
const maxRecent = 8

// noteState records a change of the engine's state. The next start resumes the model that a person
// has started and that runs now. After a stop, it leaves the engine stopped. A model that is
// loading or has failed changes nothing, so that the next start does not resume a model that cannot
// be loaded.
func noteState(s *settings.Settings, before, now host.EngineState) {
	switch now.Status {
	case host.Ready, host.Busy, host.IdleUnloaded:
		if now.Requested {
			return
		}
		s.Model, s.EngineOn = now.Model, true
		s.Recent = slices.DeleteFunc(s.Recent, func(id string) bool { return id == now.Model })
		s.Recent = slices.Insert(s.Recent, 0, now.Model)
		s.Recent = s.Recent[:min(len(s.Recent), maxRecent)]
	case host.Stopped:
		if before.Status != "" && before.Status != host.Stopped {
			s.EngineOn = false
		}
	}
}

// close releases everything. It first cancels the context, which ends saveState and the menu: they
// must not record the shutdown as a stop. Then it closes the window, the engine with its requests,
// and the endpoint.
func (a *agent) close() {
	slog.Info("quitting")
	a.service.Updates.Healthy()
	a.cancel()
	a.window.Close()
	a.service.Host.Close()
	a.running.Wait()
	a.service.Close()
	a.instance.release()
}
