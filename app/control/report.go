package control

// Bug reports over HTTP.

import (
	"log/slog"
	"net/http"
	"os"
	"path/filepath"

	"headroom/app/memory"
	"headroom/app/report"
)

// BugReport is the response of /control/report.
type BugReport struct {
	Parts []report.Part `json:"parts"`
}

func (a *API) reportRoutes() []Route {
	return []Route{route("GET /control/report",
		"Makes a bug report: the machine, the settings without secrets, the state, the GPU's "+
			"self-test and the log. Nothing is sent.", "",
		func(*http.Request, nothing) (BugReport, error) { return a.bugReport(), nil })}
}

func (a *API) bugReport() BugReport {
	state := a.host.State()
	state.Speed.History = nil
	reading, err := new(memory.Meter).Read()
	if err != nil {
		a.log.Debug("reading the memory failed", "err", err)
	}
	s := report.Sources{Version: state.Version, Memory: reading, State: state,
		Secrets: []string{a.token}}
	s.Home, _ = os.UserHomeDir()
	if a.settings != nil {
		s.Settings = a.settings.Get()
		s.SelfTest = filepath.Join(filepath.Dir(a.settings.Path()), "selftest.json")
	}
	if a.logs != nil {
		s.Log, _ = a.logs.Recent(0, slog.LevelDebug, "", maxLogLines)
	}
	return BugReport{report.New(s)}
}
