package control

// The settings that are about Headroom as a whole, over HTTP. They go into the settings file. Port
// and folders hold from the next start on, all else at once: whoever uses it asks the file. What
// the command line says beats the file, so it is shown and cannot be changed here.

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"headroom/app/logs"
	"headroom/app/settings"
	"headroom/engine/problem"
)

// GeneralSettings is the document of /api/settings.
type GeneralSettings struct {
	Port          int             `json:"port"`
	APIKey        string          `json:"apiKey"`
	AllowHosts    []string        `json:"allowHosts"`
	ModelFolders  []string        `json:"modelFolders"`
	ImportFolder  string          `json:"importFolder"` // "": Headroom's own
	Launch        settings.Launch `json:"launch"`
	DefaultModel  string          `json:"defaultModel"`
	RestMinutes   int             `json:"restMinutes"`
	LogLevel      string          `json:"logLevel"`
	StartAtLogin  bool            `json:"startAtLogin"`
	Notifications bool            `json:"notifications"`
	SaveOnBattery bool            `json:"saveOnBattery"`
	EaseWhenHot   bool            `json:"easeWhenHot"`
	Welcomed      bool            `json:"welcomed"` // the welcome was seen

	Path string `json:"path"` // of the file that people may edit while Headroom is closed
	// of the fields above, those that cannot be changed here: the command line says them, or this
	// system has no such thing
	Fixed []string `json:"fixed"`
	// of them, those that hold from the next start of Headroom on: another value is in force
	Pending []string `json:"pending"`
}

// GeneralChange is the body of a PUT: what is missing stays.
type GeneralChange struct {
	Port          *int             `json:"port"`
	APIKey        *string          `json:"apiKey"`
	AllowHosts    *[]string        `json:"allowHosts"`
	ModelFolders  *[]string        `json:"modelFolders"`
	ImportFolder  *string          `json:"importFolder"`
	Launch        *settings.Launch `json:"launch"`
	DefaultModel  *string          `json:"defaultModel"`
	RestMinutes   *int             `json:"restMinutes"`
	LogLevel      *string          `json:"logLevel"`
	StartAtLogin  *bool            `json:"startAtLogin"`
	Notifications *bool            `json:"notifications"`
	SaveOnBattery *bool            `json:"saveOnBattery"`
	EaseWhenHot   *bool            `json:"easeWhenHot"`
	Welcomed      *bool            `json:"welcomed"`
}

// LoginItem has Headroom started when its user logs in.
type LoginItem interface {
	On() bool
	Set(on bool) error
}

// LogLines is the document of /api/logs.
type LogLines struct {
	Lines []logs.Line `json:"lines"` // oldest first
	// the newest line's number, also where it is not among them: send it as ?after=
	Last int `json:"last"`
}

const (
	mostLogLines    = 5000
	mostRestMinutes = 7 * 24 * 60
)

func (a *API) generalRoutes() []Route {
	return []Route{
		route("GET /api/settings", "What is set for Headroom as a whole.", "",
			func(*http.Request, nothing) (GeneralSettings, error) { return a.general(), nil }),
		route("PUT /api/settings",
			"Changes what is sent. Port and folders hold from the next start on, all else at once.",
			`{"restMinutes": 30}`,
			func(_ *http.Request, c GeneralChange) (GeneralSettings, error) {
				if err := a.changeGeneral(c); err != nil {
					return GeneralSettings{}, err
				}
				return a.general(), nil
			}),
	}
}

func (a *API) logRoutes() []Route {
	return []Route{
		route("GET /api/logs", "The last lines of the log.", "",
			func(r *http.Request, _ nothing) (LogLines, error) {
				q := r.URL.Query()
				after, err := strconv.Atoi(cmp.Or(q.Get("after"), "0"))
				level := slog.LevelDebug
				if text := q.Get("level"); err == nil && text != "" {
					err = level.UnmarshalText([]byte(text))
				}
				if err != nil {
					return LogLines{}, problem.Wrap(problem.BadRequest, err,
						"These log lines cannot be looked up",
						"Send ?after=NUMBER&level=warn&text=WORD, each if you like.")
				}
				lines, last := a.logs.Recent(after, level, q.Get("text"), mostLogLines)
				return LogLines{lines, last}, nil
			}).with(Query{"after", "The number of the last line that is known already."},
			Query{"level", "The least important level: debug, info, warn or error."},
			Query{"text", "What must be in a line, in any case."}),
	}
}

// general is what is set, and of it what does not hold yet.
func (a *API) general() GeneralSettings {
	s := a.settings.Get()
	g := GeneralSettings{Port: s.Port, APIKey: s.APIKey,
		AllowHosts: append([]string{}, s.AllowHosts...), ModelFolders: s.ModelFolders,
		ImportFolder: s.ImportFolder, Launch: s.Launch,
		DefaultModel: s.DefaultModel, RestMinutes: s.RestMinutes,
		LogLevel: cmp.Or(s.LogLevel, "info"), Notifications: s.Notifications,
		SaveOnBattery: s.SaveOnBattery, EaseWhenHot: s.EaseWhenHot, Welcomed: s.Welcomed,
		Path:  a.settings.Path(),
		Fixed: slices.Clone(a.fixed), Pending: []string{}}
	if a.login == nil {
		g.Fixed = append(g.Fixed, "startAtLogin")
	} else {
		g.StartAtLogin = a.login.On()
	}
	if g.Fixed == nil {
		g.Fixed = []string{}
	}
	if u, err := url.Parse(a.host.State().Endpoint.URL); err == nil && u.Port() != "" &&
		u.Port() != strconv.Itoa(s.Port) && !slices.Contains(g.Fixed, "port") {
		g.Pending = append(g.Pending, "port")
	}
	if !slices.Equal(s.ModelFolders, a.begunFolders) && !slices.Contains(g.Fixed, "modelFolders") {
		g.Pending = append(g.Pending, "modelFolders")
	}
	return g
}

// changeGeneral keeps the change. The error is a Problem.
func (a *API) changeGeneral(c GeneralChange) error {
	if err := a.checkGeneral(c); err != nil {
		return err
	}
	if c.StartAtLogin != nil {
		if err := a.login.Set(*c.StartAtLogin); err != nil {
			if told := (*problem.Problem)(nil); errors.As(err, &told) {
				return told
			}
			return problem.Wrap(problem.Internal, err, "Starting at login could not be changed",
				"Look whether the folder may be written.")
		}
	}
	err := a.settings.Change(func(s *settings.Settings) {
		set(&s.Port, c.Port)
		set(&s.APIKey, c.APIKey)
		set(&s.AllowHosts, c.AllowHosts)
		set(&s.ModelFolders, c.ModelFolders)
		set(&s.ImportFolder, c.ImportFolder)
		set(&s.Launch, c.Launch)
		set(&s.DefaultModel, c.DefaultModel)
		set(&s.RestMinutes, c.RestMinutes)
		set(&s.LogLevel, c.LogLevel)
		set(&s.Notifications, c.Notifications)
		set(&s.SaveOnBattery, c.SaveOnBattery)
		set(&s.EaseWhenHot, c.EaseWhenHot)
		set(&s.Welcomed, c.Welcomed)
	})
	if err != nil {
		return problem.Wrap(problem.Internal, err,
			"The settings could not be kept, and hold until Headroom ends", "")
	}
	if c.LogLevel != nil && a.logs != nil {
		var level slog.Level
		_ = level.UnmarshalText([]byte(*c.LogLevel)) // checked
		a.logs.SetLevel(level)
		a.host.FollowLogLevel()
	}
	return nil
}

func set[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

// checkGeneral refuses what cannot be set. The error is a Problem.
func (a *API) checkGeneral(c GeneralChange) error {
	fixed := a.general().Fixed
	for name, asked := range map[string]bool{"port": c.Port != nil, "apiKey": c.APIKey != nil,
		"allowHosts": c.AllowHosts != nil, "modelFolders": c.ModelFolders != nil,
		"logLevel": c.LogLevel != nil, "startAtLogin": c.StartAtLogin != nil,
		"restMinutes": c.RestMinutes != nil, "launch": c.Launch != nil,
		"defaultModel":  c.DefaultModel != nil,
		"notifications": c.Notifications != nil, "importFolder": c.ImportFolder != nil} {
		if asked && slices.Contains(fixed, name) {
			return problem.New(problem.BadRequest, "This cannot be changed here",
				name+" was given when Headroom was started, or this program cannot do it",
				"Start Headroom without that flag, or use its menu-bar app.")
		}
	}
	refused := func(what, why,
		fix string) error {
		return problem.New(problem.BadRequest, what, why, fix)
	}
	switch {
	case c.Port != nil && (*c.Port < 1 || *c.Port > 65535):
		return refused(fmt.Sprintf("The port cannot be %d", *c.Port), "ports are 1 to 65535",
			"Use 11811, or any port above 1023 that is free.")
	case c.APIKey != nil && strings.ContainsFunc(*c.APIKey,
		func(r rune) bool { return r <= ' ' || r > '~' }):
		return refused("This key cannot be sent in a header",
			"it has a space, or a letter that is not ASCII", "Use letters, digits and signs.")
	case c.Launch != nil && !slices.Contains(
		[]settings.Launch{settings.LaunchAsLeft, settings.LaunchOn, settings.LaunchOff}, *c.Launch):
		return refused(fmt.Sprintf("launch cannot be %q", *c.Launch), "",
			"Send \"on\", \"off\", or \"\" for as it was left.")
	case c.RestMinutes != nil && (*c.RestMinutes < 0 || *c.RestMinutes > mostRestMinutes):
		return refused(fmt.Sprintf("A model cannot rest after %d minutes", *c.RestMinutes), "",
			fmt.Sprintf("Send 1 to %d, or 0 for never.", mostRestMinutes))
	case c.LogLevel != nil &&
		!slices.Contains([]string{"debug", "info", "warn", "error"}, *c.LogLevel):
		return refused("There is no log level "+*c.LogLevel, "", "Send debug, info, warn or error.")
	}
	if c.ImportFolder != nil && *c.ImportFolder != "" && !filepath.IsAbs(*c.ImportFolder) {
		return refused("Models cannot be imported into "+strconv.Quote(*c.ImportFolder),
			"it is no absolute path",
			"Give the whole path of a folder, or nothing for Headroom's own.")
	}
	if c.AllowHosts != nil {
		for _, name := range *c.AllowHosts {
			if _, _, err := net.SplitHostPort(name); name == "" || err == nil ||
				strings.ContainsAny(name, "/ *") {
				return refused("A host cannot be "+strconv.Quote(name),
					"it is a name without port and address bar", "Send a name as my-mac.local.")
			}
		}
	}
	if c.ModelFolders != nil {
		for _, dir := range *c.ModelFolders {
			if !filepath.IsAbs(dir) {
				return refused("Models cannot lie in "+strconv.Quote(dir), "it is no absolute path",
					"Give the whole path of a folder, as /Volumes/Disk/models.")
			}
		}
	}
	return nil
}
