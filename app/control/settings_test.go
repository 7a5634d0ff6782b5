package control

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"headroom/app/cache"
	"headroom/app/settings"
	"headroom/engine"
)

// settingsAPI serves a new settings file. running is the folder of the open cache; "" means no
// cache.
func settingsAPI(t *testing.T, flags settings.Cache, running string) (h *fakeHost,
	file *settings.File, ask func(method, body string) (int, CacheSettings, string)) {
	t.Setenv("XDG_CACHE_HOME", "/home")
	t.Setenv("HOME", "/home")
	file, err := settings.Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	h = &fakeHost{changed: make(chan struct{}, 1)}
	h.state.Cache = cache.Stats{On: running != "", Dir: running}
	s := httptest.NewServer(
		New(Options{Host: h, Token: "T", Server: http.NotFoundHandler(), Settings: file,
			CacheFlags: flags}))
	t.Cleanup(s.Close)
	return h, file, func(method, body string) (int, CacheSettings, string) {
		status, _, text := do(t, method, s.URL+"/control/settings/cache", body, TokenHeader, "T")
		var c CacheSettings
		_ = json.Unmarshal([]byte(text), &c)
		return status, c, text
	}
}

// TestCacheSettings: a change is saved, all limits are applied to the open cache, and settings that
// need a restart are reported.
func TestCacheSettings(t *testing.T) {
	defaultDir := func() string { return cache.DefaultDir() }
	h, file, ask := settingsAPI(t, settings.Cache{}, "")
	h.state.Cache = cache.Stats{On: true, Dir: defaultDir()}
	_, got, _ := ask("GET", "")
	if want := (CacheSettings{On: true, Dir: defaultDir(), ReadOnly: []string{},
		NeedsRestart: []string{}}); !reflect.DeepEqual(got, want) {
		t.Errorf("at first: %+v, want %+v", got, want)
	}
	other := filepath.Join(t.TempDir(), "not there yet")
	steps := []struct {
		body    string
		want    CacheSettings
		applied int // calls of SetCacheLimits so far
	}{
		{`{"maxBytes":5000000000}`, CacheSettings{On: true, Dir: defaultDir(), MaxBytes: 5e9}, 1},
		{`{"minFreeBytes":-7,"dailyWriteBytes":1000}`,
			CacheSettings{On: true, Dir: defaultDir(), MaxBytes: 5e9, MinFreeBytes: -1,
				DailyWriteBytes: 1000}, 2},
		{`{"on":false}`, CacheSettings{Dir: defaultDir(), MaxBytes: 5e9, MinFreeBytes: -1,
			DailyWriteBytes: 1000, NeedsRestart: []string{"on"}}, 2},
		{`{"on":true,"dir":"` + other + `"}`,
			CacheSettings{On: true, Dir: other, MaxBytes: 5e9, MinFreeBytes: -1,
				DailyWriteBytes: 1000, NeedsRestart: []string{"dir"}}, 2},
		{`{"dir":"","maxBytes":0}`,
			CacheSettings{On: true, Dir: defaultDir(), MinFreeBytes: -1, DailyWriteBytes: 1000}, 3},
		{``, CacheSettings{On: true, Dir: defaultDir(), MinFreeBytes: -1, DailyWriteBytes: 1000},
			3},
	}
	for _, s := range steps {
		status, got, text := ask("PUT", s.body)
		s.want.ReadOnly = []string{}
		if s.want.NeedsRestart == nil {
			s.want.NeedsRestart = []string{}
		}
		if status != 200 || !reflect.DeepEqual(got, s.want) || len(h.limits) != s.applied {
			t.Errorf("%s: %d %s, limits %+v; want %+v", s.body, status, text, h.limits, s.want)
		}
	}
	if want := (engine.BlockStoreLimits{MaxBytes: 5e9, MinFreeBytes: -1,
		DailyWriteBytes: 1000}); h.limits[1] != want {
		t.Errorf("applied %+v, want %+v", h.limits[1], want)
	}
	saved := settings.Cache{MinFree: settings.Unlimited, DailyWrites: 1000}
	if got := file.Get().Cache; got != saved {
		t.Errorf("saved %+v, want %+v", got, saved)
	}
}

// TestCacheSettingsRefused: an invalid change is refused with a reason and changes nothing.
func TestCacheSettingsRefused(t *testing.T) {
	h, saved, ask := settingsAPI(t, settings.Cache{MaxSize: 7e9}, "/home/headroom/blocks")
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for body, want := range map[string]string{
		`{"maxBytes":9000000000}`:                  "command line",
		`{"maxBytes":0,"minFreeBytes":1}`:          "command line",
		`{"dir":"blocks"}`:                         "not an absolute path",
		`{"dir":"` + file + `"}`:                   "not a folder",
		`{"dir":"` + file + `/blocks"}`:            "not a directory",
		`{"dir":"/no/such/folder/for/blocks"}`:     "no such file",
		`{"minFreeBytes":"10GB"}`:                  "request body is not valid",
		`{"on":"yes"}`:                             "request body is not valid",
		`{"dailyWriteBytes":99999999999999999999}`: "request body is not valid",
	} {
		if status, _, text := ask("PUT", body); status != 400 || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s, want 400 with %q", body, status, text, want)
		}
	}
	if got := saved.Get().Cache; got != (settings.Cache{}) || len(h.limits) != 0 {
		t.Errorf("saved %+v, applied %+v", got, h.limits)
	}
	_, _, ask = settingsAPI(t, settings.Cache{}, "")
	if status, _, text := ask("PUT", `{"maxBytes":20}`); status != 400 ||
		!strings.Contains(text, "A limit of 20 bytes") {
		t.Errorf("a limit of 20 bytes: %d %s", status, text)
	}
}

// TestFlagsMakeCacheSettingsReadOnly: flags override the settings file.
func TestFlagsMakeCacheSettingsReadOnly(t *testing.T) {
	for _, c := range []struct {
		flags   settings.Cache
		running string
		saved   settings.Cache
		want    CacheSettings
	}{
		{settings.Cache{Dir: "/f", MaxSize: 7}, "/f",
			settings.Cache{Off: true, Dir: "/s", MaxSize: 8, DailyWrites: 9},
			CacheSettings{On: true, Dir: "/f", MaxBytes: 7, DailyWriteBytes: 9,
				ReadOnly: []string{"on", "dir", "maxBytes"}, NeedsRestart: []string{}}},
		{settings.Cache{Off: true, MinFree: 3, DailyWrites: settings.Unlimited}, "",
			settings.Cache{Dir: "/s"},
			CacheSettings{Dir: "/s", MinFreeBytes: 3, DailyWriteBytes: -1,
				ReadOnly:     []string{"on", "minFreeBytes", "dailyWriteBytes"},
				NeedsRestart: []string{}}},
	} {
		_, file, ask := settingsAPI(t, c.flags, c.running)
		if err := file.Change(func(s *settings.Settings) { s.Cache = c.saved }); err != nil {
			t.Fatal(err)
		}
		if _, got, _ := ask("GET", ""); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%+v: got %+v, want %+v", c.flags, got, c.want)
		}
	}
}
