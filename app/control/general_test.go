package control

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"headroom/app/agents"
	"headroom/app/chats"
	"headroom/app/host"
	"headroom/app/keys"
	"headroom/app/logs"
	"headroom/app/machines"
	"headroom/app/settings"
	"headroom/app/stored"
	"headroom/engine/guard"
	"headroom/engine/problem"
	"headroom/engine/seal"
)

// fakeLogin is a LoginItem in memory. Set fails if locked is set, or with the Problem in refuses.
type fakeLogin struct {
	on, locked bool
	refuses    error
}

func (l *fakeLogin) On() bool { return l.on }
func (l *fakeLogin) Set(on bool) error {
	if l.locked {
		return errors.New("permission denied")
	}
	if l.refuses != nil {
		return l.refuses
	}
	l.on = on
	return nil
}

// fakeStored has one chat, and deletes it.
type fakeStored struct{}

func (fakeStored) Stored() stored.List {
	return stored.List{Items: []stored.Item{
		{Kind: stored.Chats, Paths: []string{"/data/chats"}, Files: 1, Bytes: 9}}}
}

func (fakeStored) DeleteStored(context.Context, stored.Choice) (stored.Deleted, error) {
	return stored.Deleted{Files: 1, Bytes: 9, Left: []string{"The key is left."}}, nil
}

// generalFixture is an API with a fake host and a new settings file.
type generalFixture struct {
	file    *settings.File
	login   *fakeLogin
	logs    *logs.Logs
	api     *API
	host    *fakeHost
	url     string
	chats   *chats.Store
	keys    *keys.Store
	others  *machines.Store
	router  *fakeRouter
	home    string // of the agents
	updates fakeUpdates
	pairing fakePairing
}

func newGeneral(t *testing.T, readOnly ...string) *generalFixture {
	t.Helper()
	file, err := settings.Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	named, err := keys.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	others, err := machines.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	h := &fakeHost{state: host.State{Endpoint: host.Endpoint{URL: "http://127.0.0.1:11811/v1"}}}
	w := &generalFixture{host: h, file: file, login: &fakeLogin{}, logs: logs.New(slog.LevelInfo),
		keys:   named,
		others: others, router: &fakeRouter{},
		home:  t.TempDir(),
		chats: chats.Open(t.TempDir(), func() (seal.Key, error) { return seal.Key{}, nil })}
	a := New(Options{Host: h, Token: "T", Server: http.NotFoundHandler(), Settings: file,
		ReadOnly: readOnly, Login: w.login, Logs: w.logs, Transfers: newTransfers(t, file),
		Chats: w.chats, Keys: w.keys, Stored: fakeStored{}, Updates: &w.updates,
		Machines: others, Router: w.router, Pairing: &w.pairing,
		Agents: agents.New(t.TempDir(), agents.Environment{Home: w.home, System: "linux"}, named),
		Guard:  &guard.Guard{Keys: named},
		Log:    slog.New(slog.DiscardHandler)})
	server := httptest.NewServer(a)
	t.Cleanup(func() { a.Close(); server.Close() })
	w.api, w.url = a, server.URL
	return w
}

func (w *generalFixture) put(t *testing.T, body string) (int, GeneralSettings, string) {
	t.Helper()
	status, _, text := do(t, "PUT", w.url+"/control/settings", body, TokenHeader, "T")
	var g GeneralSettings
	_ = json.Unmarshal([]byte(text), &g) // an error has another shape
	return status, g, text
}

// TestGeneralSettings: sent settings are saved and applied, others do not change.
func TestGeneralSettings(t *testing.T) {
	w := newGeneral(t)
	const all = `{"port":12000,"ollamaPort":true,"ollamaDelete":true,"apiKey":"k-1",` +
		`"allowHosts":["mac.local"],` +
		`"allowOrigins":["app://obsidian.md"],"modelFolders":["/m"],` +
		`"importFolder":"/i","launch":"off","defaultModel":"o/m","idleUnloadMinutes":30,` +
		`"loadOnRequest":false,"requestWaitMinutes":3,"logLevel":"debug","startAtLogin":true,"notifications":false,"saveOnBattery":false,` +
		`"throttleWhenHot":true,"freeUnderPressure":true,` +
		`"updateFeed":"https://example.org/feed.json","updateKey":"","welcomed":true}`
	status, g, text := w.put(t, all)
	want := GeneralSettings{Port: 12000, OllamaPort: true, OllamaDelete: true, APIKey: "k-1",
		AllowHosts: []string{"mac.local"}, AllowOrigins: []string{"app://obsidian.md"},
		ModelFolders: []string{"/m"}, ImportFolder: "/i", Launch: settings.LaunchOff,
		DefaultModel: "o/m", IdleUnloadMinutes: 30, RequestWaitMinutes: 3, LogLevel: "debug",
		StartAtLogin:  true,
		Notifications: false,
		SaveOnBattery: false, ThrottleWhenHot: true, FreeUnderPressure: true,
		UpdateFeed: "https://example.org/feed.json",
		Welcomed:   true, Path: w.file.Path(),
		ReadOnly: []string{}, NeedsRestart: []string{"port", "ollamaPort", "modelFolders"}}
	if status != 200 || !reflect.DeepEqual(g, want) {
		t.Errorf("%d %s", status, text)
	}
	if s := w.file.Get(); s.IdleUnloadMinutes != 30 || s.APIKey != "k-1" || !w.login.on ||
		w.logs.Level() != slog.LevelDebug || w.host.levels != 1 || s.StartsEngine() {
		t.Errorf("saved: %+v, login %v, level %s, FollowLogLevel called %d times", s, w.login.on,
			w.logs.Level(), w.host.levels)
	}
	_, g, _ = w.put(t, `{"port":11811,"ollamaPort":false,"modelFolders":[],"startAtLogin":false}`)
	if len(g.NeedsRestart) != 0 || g.StartAtLogin || g.IdleUnloadMinutes != 30 ||
		g.APIKey != "k-1" {
		t.Errorf("%+v", g)
	}
}

func TestGeneralSettingsRefused(t *testing.T) {
	w := newGeneral(t)
	before := w.file.Get()
	for body, want := range map[string]string{
		`{"allowHost":["x"]}`:             "there is no key",
		`{"port":0}`:                      "ports are 1 to 65535",
		`{"port":70000}`:                  "ports are 1 to 65535",
		`{"port":"x"}`:                    "request body is not valid",
		`{"apiKey":"a b"}`:                "API key is not valid",
		`{"apiKey":"schlüssel"}`:          "API key is not valid",
		`{"allowHosts":["mac.local:80"]}`: "has no port",
		`{"allowHosts":[""]}`:             "is not a host name",
		`{"allowHosts":["*"]}`:            "is not a host name",
		`{"allowOrigins":["null"]}`:       "is not an origin",
		`{"allowOrigins":["https://*"]}`:  "is not an origin",
		`{"allowOrigins":["a.example"]}`:  "is not an origin",
		`{"modelFolders":["models"]}`:     "not an absolute path",
		`{"importFolder":"models"}`:       "not an absolute path",
		`{"launch":"maybe"}`:              "is not a value of launch",
		`{"idleUnloadMinutes":-1}`:        "not a valid number of minutes",
		`{"requestWaitMinutes":1441}`:     "not a valid number of minutes",
		`{"idleUnloadMinutes":99999999}`:  "not a valid number of minutes",
		`{"logLevel":"loud"}`:             `no log level \"loud\"`,
		// The valid setting is not saved either.
		`{"idleUnloadMinutes":5,"logLevel":"loud"}`: `no log level \"loud\"`,
	} {
		if status, _, text := w.put(t, body); status != 400 || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s", body, status, text)
		}
	}
	w.login.locked = true
	if status, _, text := w.put(t, `{"startAtLogin":true}`); status != 500 ||
		!strings.Contains(text, "permission denied") {
		t.Errorf("%d %s", status, text)
	}
	w.login.locked = false
	w.login.refuses = problem.New(problem.BadRequest, "Not from here", "it is a copy", "Move it.")
	if status, _, text := w.put(t, `{"startAtLogin":true}`); status != 400 ||
		!strings.Contains(text, "Move it.") {
		t.Errorf("%d %s", status, text)
	}
	if !reflect.DeepEqual(before, w.file.Get()) {
		t.Errorf("saved: %+v", w.file.Get())
	}
}

func TestFlagsMakeGeneralSettingsReadOnly(t *testing.T) {
	w := newGeneral(t, "port", "launch")
	status, _, text := do(t, "GET", w.url+"/control/settings", "", TokenHeader, "T")
	if status != 200 || !strings.Contains(text, `"readOnly":["port","launch"],"needsRestart":[]`) {
		t.Errorf("%d %s", status, text)
	}
	for _, body := range []string{`{"port":12000}`, `{"launch":"on"}`} {
		if status, _, text := w.put(t, body); status != 400 ||
			!strings.Contains(text, "cannot be changed here") {
			t.Errorf("%s: %d %s", body, status, text)
		}
	}
	if status, _, _ := w.put(t, `{"idleUnloadMinutes":5}`); status != 200 {
		t.Error("a setting that is not read-only could not be changed")
	}
}

func TestLogs(t *testing.T) {
	w := newGeneral(t)
	log := slog.New(w.logs.Handler(io.Discard, false))
	log.Info("loading", "model", "o/m")
	log.Warn("slow")
	for _, c := range []struct {
		query  string
		status int
		want   string
	}{
		{"", 200, `"message":"loading","fields":"model=o/m"`},
		{"", 200, `"last":2`},
		{"?level=warn", 200, `{"lines":[{"number":2,`},
		{"?text=MODEL", 200, `{"lines":[{"number":1,`},
		{"?after=2", 200, `{"lines":[],"last":2}`},
		{"?after=x", 400, "after=NUMBER"},
		{"?level=loud", 400, "after=NUMBER"},
	} {
		if status, _, text := do(t, "GET", w.url+"/control/logs"+c.query, "", TokenHeader,
			"T"); status != c.status || !strings.Contains(text, c.want) {
			t.Errorf("%q: %d %s", c.query, status, text)
		}
	}
}
