package control

// The general settings over HTTP. They are saved in the settings file. A new port or new model
// folders take effect at the next start, everything else at once, because the other settings are
// read each time they are used. A command-line flag overrides the file; such a setting is shown
// here, but cannot be changed.

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"headroom/app/logs"
	"headroom/app/settings"
	"headroom/app/update"
	"headroom/engine/guard"
	"headroom/engine/problem"
)

// GeneralSettings is the response of /control/settings.
type GeneralSettings struct {
	Port              int             `json:"port"`
	OllamaPort        bool            `json:"ollamaPort"`   // also listen on Ollama's port
	OllamaDelete      bool            `json:"ollamaDelete"` // clients may delete models
	APIKey            string          `json:"apiKey"`       // the key without a name
	NamedKeys         int             `json:"namedKeys"`    // how many there are; see /control/keys
	AllowHosts        []string        `json:"allowHosts"`
	AllowOrigins      []string        `json:"allowOrigins"`
	ModelFolders      []string        `json:"modelFolders"`
	ImportFolder      string          `json:"importFolder"` // "": Headroom's default folder
	Launch            settings.Launch `json:"launch"`
	DefaultModel      string          `json:"defaultModel"`
	IdleUnloadMinutes int             `json:"idleUnloadMinutes"`
	LoadOnRequest     bool            `json:"loadOnRequest"`
	// RequestWaitMinutes is how long a request waits for its model; 0 means 10 minutes.
	RequestWaitMinutes int    `json:"requestWaitMinutes"`
	LogLevel           string `json:"logLevel"`
	StartAtLogin       bool   `json:"startAtLogin"`
	Notifications      bool   `json:"notifications"`
	// MenuBarFigure is shown beside the icon in the menu bar.
	MenuBarFigure     settings.MenuBarFigure `json:"menuBarFigure"`
	SaveOnBattery     bool                   `json:"saveOnBattery"`
	ThrottleWhenHot   bool                   `json:"throttleWhenHot"`
	FreeUnderPressure bool                   `json:"freeUnderPressure"`
	UpdateFeed        string                 `json:"updateFeed"` // "": none
	UpdateKey         string                 `json:"updateKey"`
	Welcomed          bool                   `json:"welcomed"` // the welcome page was shown

	Path string `json:"path"` // of the settings file, which may be edited while Headroom is closed
	// ReadOnly names the fields above that cannot be changed here, because the command line sets
	// them or this system does not support them.
	ReadOnly []string `json:"readOnly"`
	// NeedsRestart names the fields above whose new value takes effect at the next start.
	NeedsRestart []string `json:"needsRestart"`
}

// GeneralChange is the body of PUT /control/settings. A missing field does not change.
type GeneralChange struct {
	Port               *int                    `json:"port"`
	OllamaPort         *bool                   `json:"ollamaPort"`
	OllamaDelete       *bool                   `json:"ollamaDelete"`
	APIKey             *string                 `json:"apiKey"`
	AllowHosts         *[]string               `json:"allowHosts"`
	AllowOrigins       *[]string               `json:"allowOrigins"`
	ModelFolders       *[]string               `json:"modelFolders"`
	ImportFolder       *string                 `json:"importFolder"`
	Launch             *settings.Launch        `json:"launch"`
	DefaultModel       *string                 `json:"defaultModel"`
	IdleUnloadMinutes  *int                    `json:"idleUnloadMinutes"`
	LoadOnRequest      *bool                   `json:"loadOnRequest"`
	RequestWaitMinutes *int                    `json:"requestWaitMinutes"`
	LogLevel           *string                 `json:"logLevel"`
	StartAtLogin       *bool                   `json:"startAtLogin"`
	Notifications      *bool                   `json:"notifications"`
	MenuBarFigure      *settings.MenuBarFigure `json:"menuBarFigure"`
	SaveOnBattery      *bool                   `json:"saveOnBattery"`
	ThrottleWhenHot    *bool                   `json:"throttleWhenHot"`
	FreeUnderPressure  *bool                   `json:"freeUnderPressure"`
	UpdateFeed         *string                 `json:"updateFeed"`
	UpdateKey          *string                 `json:"updateKey"`
	Welcomed           *bool                   `json:"welcomed"`
}

// LoginItem controls whether Headroom starts when its user logs in.
type LoginItem interface {
	On() bool
	Set(on bool) error
}

// LogLines is the response of /control/logs.
type LogLines struct {
	Lines []logs.Line `json:"lines"` // oldest first
	// Last is the number of the newest line, whether or not Lines contains it. Send it as ?after=
	// to get the lines after it.
	Last int `json:"last"`
}

const maxLogLines = 5000

func (a *API) generalRoutes() []Route {
	return []Route{
		route("GET /control/settings", "Returns the general settings.", "",
			func(*http.Request, nothing) (GeneralSettings, error) { return a.general(), nil }),
		route("PUT /control/settings",
			"Changes the settings in the body. A new port or new model folders take effect at the "+
				"next start, everything else at once.",
			`{"idleUnloadMinutes": 30}`,
			func(_ *http.Request, c GeneralChange) (GeneralSettings, error) {
				if err := a.changeGeneral(c); err != nil {
					return GeneralSettings{}, err
				}
				return a.general(), nil
			}).withKnownFields(),
	}
}

func (a *API) logRoutes() []Route {
	return []Route{
		route("GET /control/logs", "Returns the last lines of the log.", "",
			func(r *http.Request, _ nothing) (LogLines, error) {
				q := r.URL.Query()
				after, err := strconv.Atoi(cmp.Or(q.Get("after"), "0"))
				level := slog.LevelDebug
				if text := q.Get("level"); err == nil && text != "" {
					err = level.UnmarshalText([]byte(text))
				}
				if err != nil {
					return LogLines{}, problem.Wrap(problem.BadRequest, err,
						"The query for log lines is not valid",
						"Send ?after=NUMBER&level=warn&text=WORD; each is optional.")
				}
				lines, last := a.logs.Recent(after, level, q.Get("text"), maxLogLines)
				return LogLines{lines, last}, nil
			}).withQueries(Query{"after", "Return only lines after this number."},
			Query{"level", "The lowest level to return: debug, info, warn or error."},
			Query{"text", "Text that a line must contain, ignoring case."}),
	}
}

// general returns the settings and which of them are read-only or need a restart.
func (a *API) general() GeneralSettings {
	s := a.settings.Get()
	g := GeneralSettings{Port: s.Port, OllamaPort: s.OllamaPort, OllamaDelete: s.OllamaDelete,
		APIKey:     s.APIKey,
		AllowHosts: append([]string{}, s.AllowHosts...), ModelFolders: s.ModelFolders,
		AllowOrigins: append([]string{}, s.AllowOrigins...),
		ImportFolder: s.ImportFolder, Launch: s.Launch,
		DefaultModel: s.DefaultModel, IdleUnloadMinutes: s.IdleUnloadMinutes,
		LoadOnRequest: s.LoadOnRequest, RequestWaitMinutes: s.RequestWaitMinutes,
		LogLevel: cmp.Or(s.LogLevel, "info"), Notifications: s.Notifications,
		MenuBarFigure: s.MenuBarFigure,
		SaveOnBattery: s.SaveOnBattery, ThrottleWhenHot: s.ThrottleWhenHot, Welcomed: s.Welcomed,
		FreeUnderPressure: s.FreeUnderPressure, UpdateFeed: s.UpdateFeed, UpdateKey: s.UpdateKey,
		Path:     a.settings.Path(),
		ReadOnly: slices.Clone(a.readOnly), NeedsRestart: []string{}}
	if a.keys != nil {
		g.NamedKeys = a.keys.Count()
	}
	if a.login == nil {
		g.ReadOnly = append(g.ReadOnly, "startAtLogin")
	} else {
		g.StartAtLogin = a.login.On()
	}
	if g.ReadOnly == nil {
		g.ReadOnly = []string{}
	}
	if u, err := url.Parse(a.host.State().Endpoint.URL); err == nil && u.Port() != "" &&
		u.Port() != strconv.Itoa(s.Port) && !slices.Contains(g.ReadOnly, "port") {
		g.NeedsRestart = append(g.NeedsRestart, "port")
	}
	if s.OllamaPort != a.startOllamaPort && !slices.Contains(g.ReadOnly, "ollamaPort") {
		g.NeedsRestart = append(g.NeedsRestart, "ollamaPort")
	}
	if !slices.Equal(s.ModelFolders, a.startFolders) &&
		!slices.Contains(g.ReadOnly, "modelFolders") {
		g.NeedsRestart = append(g.NeedsRestart, "modelFolders")
	}
	return g
}

// changeGeneral saves the change and applies it to the log level and the login item. The error is
// a Problem.
func (a *API) changeGeneral(c GeneralChange) error {
	if err := a.checkGeneral(c); err != nil {
		return err
	}
	if c.StartAtLogin != nil {
		if err := a.login.Set(*c.StartAtLogin); err != nil {
			if p := (*problem.Problem)(nil); errors.As(err, &p) {
				return p
			}
			return problem.Wrap(problem.Internal, err, "The login item could not be changed",
				"Check the permissions of its folder.")
		}
	}
	err := a.settings.Change(func(s *settings.Settings) {
		setIfSent(&s.Port, c.Port)
		setIfSent(&s.OllamaPort, c.OllamaPort)
		setIfSent(&s.OllamaDelete, c.OllamaDelete)
		setIfSent(&s.APIKey, c.APIKey)
		setIfSent(&s.AllowHosts, c.AllowHosts)
		setIfSent(&s.AllowOrigins, c.AllowOrigins)
		setIfSent(&s.ModelFolders, c.ModelFolders)
		setIfSent(&s.ImportFolder, c.ImportFolder)
		setIfSent(&s.Launch, c.Launch)
		setIfSent(&s.DefaultModel, c.DefaultModel)
		setIfSent(&s.IdleUnloadMinutes, c.IdleUnloadMinutes)
		setIfSent(&s.LoadOnRequest, c.LoadOnRequest)
		setIfSent(&s.RequestWaitMinutes, c.RequestWaitMinutes)
		setIfSent(&s.LogLevel, c.LogLevel)
		setIfSent(&s.Notifications, c.Notifications)
		setIfSent(&s.MenuBarFigure, c.MenuBarFigure)
		setIfSent(&s.SaveOnBattery, c.SaveOnBattery)
		setIfSent(&s.ThrottleWhenHot, c.ThrottleWhenHot)
		setIfSent(&s.FreeUnderPressure, c.FreeUnderPressure)
		setIfSent(&s.UpdateFeed, c.UpdateFeed)
		setIfSent(&s.UpdateKey, c.UpdateKey)
		setIfSent(&s.Welcomed, c.Welcomed)
	})
	if err != nil {
		return problem.Wrap(problem.Internal, err,
			"The settings could not be saved; they apply until Headroom quits", "")
	}
	if c.LogLevel != nil && a.logs != nil {
		var level slog.Level
		_ = level.UnmarshalText([]byte(*c.LogLevel)) // checked
		a.logs.SetLevel(level)
		a.host.FollowLogLevel()
	}
	return nil
}

// setIfSent copies *from to *to, unless from is nil.
func setIfSent[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

// checkGeneral returns a Problem if the change is not valid.
func (a *API) checkGeneral(c GeneralChange) error {
	readOnly := a.general().ReadOnly
	for name, asked := range map[string]bool{"port": c.Port != nil, "apiKey": c.APIKey != nil,
		"ollamaPort": c.OllamaPort != nil,
		"allowHosts": c.AllowHosts != nil, "modelFolders": c.ModelFolders != nil,
		"logLevel": c.LogLevel != nil, "startAtLogin": c.StartAtLogin != nil,
		"idleUnloadMinutes": c.IdleUnloadMinutes != nil, "launch": c.Launch != nil,
		"defaultModel":       c.DefaultModel != nil,
		"loadOnRequest":      c.LoadOnRequest != nil,
		"requestWaitMinutes": c.RequestWaitMinutes != nil,
		"menuBarFigure":      c.MenuBarFigure != nil,
		"notifications":      c.Notifications != nil, "importFolder": c.ImportFolder != nil} {
		if asked && slices.Contains(readOnly, name) {
			return problem.New(problem.BadRequest, "This setting cannot be changed here",
				name+" is set on the command line, or this program does not support it",
				"Start Headroom without that flag, or use the menu-bar app.")
		}
	}
	refused := func(what, why, fix string) error {
		return problem.New(problem.BadRequest, what, why, fix)
	}
	switch {
	case c.Port != nil && (*c.Port < 1 || *c.Port > 65535):
		return refused(fmt.Sprintf("Port %d is not valid", *c.Port), "ports are 1 to 65535",
			"Use 11811, or any free port above 1023.")
	case c.APIKey != nil && strings.ContainsFunc(*c.APIKey,
		func(r rune) bool { return r <= ' ' || r > '~' }):
		return refused("The API key is not valid",
			"it contains a space or a character outside ASCII",
			"Use ASCII letters, digits and punctuation.")
	case c.Launch != nil && !slices.Contains(
		[]settings.Launch{settings.LaunchAsLeft, settings.LaunchOn, settings.LaunchOff}, *c.Launch):
		return refused(fmt.Sprintf("%q is not a value of launch", *c.Launch), "",
			"Send \"on\", \"off\", or \"\" to restore the last state.")
	case c.MenuBarFigure != nil && !slices.Contains([]settings.MenuBarFigure{settings.FigureNone,
		settings.FigureSpeed, settings.FigureMemory}, *c.MenuBarFigure):
		return refused(fmt.Sprintf("%q is not a value of menuBarFigure", *c.MenuBarFigure), "",
			"Send \"speed\", \"memory\", or \"\" for none.")
	case c.IdleUnloadMinutes != nil &&
		(*c.IdleUnloadMinutes < 0 || *c.IdleUnloadMinutes > settings.MaxIdleMinutes):
		return refused(fmt.Sprintf("%d is not a valid number of minutes", *c.IdleUnloadMinutes),
			"an idle model is unloaded after at most a week",
			fmt.Sprintf("Send 1 to %d, or 0 for never.", settings.MaxIdleMinutes))
	case c.RequestWaitMinutes != nil &&
		(*c.RequestWaitMinutes < 0 || *c.RequestWaitMinutes > settings.MaxWaitMinutes):
		return refused(fmt.Sprintf("%d is not a valid number of minutes", *c.RequestWaitMinutes),
			"a request waits for at most a day",
			fmt.Sprintf("Send 1 to %d, or 0 for the default.", settings.MaxWaitMinutes))
	case c.LogLevel != nil &&
		!slices.Contains([]string{"debug", "info", "warn", "error"}, *c.LogLevel):
		return refused("There is no log level "+strconv.Quote(*c.LogLevel), "",
			"Send debug, info, warn or error.")
	}
	if c.UpdateFeed != nil && *c.UpdateFeed != "" {
		if err := update.CheckAddress(*c.UpdateFeed); err != nil {
			return refused(strconv.Quote(*c.UpdateFeed)+" cannot be the address of a feed",
				err.Error(), "Enter an address that begins with https://, or nothing for no feed.")
		}
	}
	if c.UpdateKey != nil && *c.UpdateKey != "" {
		if _, err := update.ParseKey(*c.UpdateKey); err != nil {
			return refused("The key of the feed is not valid", err.Error(),
				"Enter the publisher's public key of minisign.")
		}
	}
	if c.ImportFolder != nil && *c.ImportFolder != "" && !filepath.IsAbs(*c.ImportFolder) {
		return refused("Models cannot be imported into "+strconv.Quote(*c.ImportFolder),
			"it is not an absolute path",
			"Enter the full path of a folder, or nothing for the default folder.")
	}
	if c.AllowHosts != nil {
		for _, name := range *c.AllowHosts {
			if !guard.ValidHost(name) {
				return refused(strconv.Quote(name)+" is not a host name",
					"a host name has no port, path or wildcard",
					"Enter a name such as my-mac.local.")
			}
		}
	}
	if c.AllowOrigins != nil {
		for _, origin := range *c.AllowOrigins {
			if !guard.ValidOrigin(origin) {
				return refused(strconv.Quote(origin)+" is not an origin that can be allowed",
					"an origin has a scheme and a host, and no path",
					"Enter one such as app://obsidian.md, or vscode-webview://*.")
			}
		}
	}
	if c.ModelFolders != nil {
		for _, dir := range *c.ModelFolders {
			if !filepath.IsAbs(dir) {
				return refused(strconv.Quote(dir)+" cannot be a model folder",
					"it is not an absolute path",
					"Enter the full path of a folder, such as /Volumes/Disk/models.")
			}
		}
	}
	return nil
}
