package control

// The cache's settings over HTTP. They go into the settings file, and the limits to the cache that
// is open, at once; whether there is a cache, and where, holds from the next start on, because the
// engine that runs has the old one in its hands. What the command line says beats the file, so it
// is shown and cannot be changed here.

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"

	"headroom/app/cache"
	"headroom/app/settings"
	"headroom/engine"
	"headroom/engine/problem"
)

// CacheSettings is the document of /api/settings/cache. Sizes are in bytes; 0 is the default, below
// 0 no limit.
type CacheSettings struct {
	On              bool   `json:"on"`
	Dir             string `json:"dir"`
	MaxBytes        int64  `json:"maxBytes"`
	MinFreeBytes    int64  `json:"minFreeBytes"`
	DailyWriteBytes int64  `json:"dailyWriteBytes"`

	Fixed []string `json:"fixed"` // of the fields above, those that the command line says
	// of them, those that hold from the next start of Headroom on: another value is in force
	Pending []string `json:"pending"`
}

// CacheChange is the body of a PUT: what is missing stays. An empty Dir is the default.
type CacheChange struct {
	On              *bool   `json:"on"`
	Dir             *string `json:"dir"`
	MaxBytes        *int64  `json:"maxBytes"`
	MinFreeBytes    *int64  `json:"minFreeBytes"`
	DailyWriteBytes *int64  `json:"dailyWriteBytes"`
}

// leastCapBytes is below what anybody means by a cap.
const leastCapBytes = 1e6

func (a *API) settingsRoutes() []Route {
	return []Route{
		route("GET /api/settings/cache", "The cache's switch, folder and limits.", "",
			func(*http.Request, nothing) (CacheSettings, error) { return a.cacheSettings(), nil }),
		route("PUT /api/settings/cache",
			"Changes what is sent. Limits hold at once, switch and folder from the next start on.",
			`{"maxBytes": 20000000000}`,
			func(_ *http.Request, c CacheChange) (CacheSettings, error) {
				if err := a.changeCache(c); err != nil {
					return CacheSettings{}, err
				}
				return a.cacheSettings(), nil
			}),
	}
}

// cacheSettings is what is set, by the command line or else by the file.
func (a *API) cacheSettings() CacheSettings {
	s, flags, running := a.settings.Get().Cache, a.cacheFlags, a.host.State().Cache
	c := CacheSettings{On: !flags.Off &&
		(!s.Off || flags.Dir != ""), Dir: cmp.Or(flags.Dir, s.Dir, cache.DefaultDir()),
		MaxBytes:        int64(cmp.Or(flags.MaxSize, s.MaxSize)),
		MinFreeBytes:    int64(cmp.Or(flags.MinFree, s.MinFree)),
		DailyWriteBytes: int64(cmp.Or(flags.DailyWrites, s.DailyWrites)), Fixed: []string{},
		Pending: []string{}}
	for _, f := range []struct {
		name  string
		fixed bool
	}{{"on", flags.Off || flags.Dir != ""}, {"dir", flags.Dir != ""},
		{"maxBytes", flags.MaxSize != 0}, {"minFreeBytes", flags.MinFree != 0},
		{"dailyWriteBytes", flags.DailyWrites != 0}} {
		if f.fixed {
			c.Fixed = append(c.Fixed, f.name)
		}
	}
	if c.On != (running.Dir != "") {
		c.Pending = append(c.Pending, "on")
	} else if c.On && c.Dir != running.Dir {
		c.Pending = append(c.Pending, "dir")
	}
	return c
}

// changeCache keeps the change and has the limits applied. The error is a Problem.
func (a *API) changeCache(c CacheChange) error {
	if err := a.check(c); err != nil {
		return err
	}
	err := a.settings.Change(func(s *settings.Settings) {
		if c.On != nil {
			s.Cache.Off = !*c.On
		}
		if c.Dir != nil {
			s.Cache.Dir = *c.Dir
		}
		for _, f := range []struct {
			to   *settings.Size
			from *int64
		}{{&s.Cache.MaxSize, c.MaxBytes}, {&s.Cache.MinFree, c.MinFreeBytes},
			{&s.Cache.DailyWrites, c.DailyWriteBytes}} {
			if f.from != nil {
				*f.to = settings.Size(max(*f.from, int64(settings.Unlimited)))
			}
		}
	})
	if err != nil {
		return problem.Wrap(problem.Internal, err,
			"The settings could not be kept, and hold until Headroom ends", "")
	}
	if c.MaxBytes == nil && c.MinFreeBytes == nil && c.DailyWriteBytes == nil {
		return nil
	}
	now := a.cacheSettings()
	return a.host.SetCacheLimits(
		engine.BlockStoreLimits{MaxBytes: now.MaxBytes, MinFreeBytes: now.MinFreeBytes,
			DailyWriteBytes: now.DailyWriteBytes})
}

// check refuses what cannot be set. The error is a Problem.
func (a *API) check(c CacheChange) error {
	asked := map[string]bool{"on": c.On != nil, "dir": c.Dir != nil, "maxBytes": c.MaxBytes != nil,
		"minFreeBytes":    c.MinFreeBytes != nil,
		"dailyWriteBytes": c.DailyWriteBytes != nil}
	for _, name := range a.cacheSettings().Fixed {
		if asked[name] {
			return problem.New(problem.BadRequest, "This is set on the command line",
				name+" was given when Headroom was started",
				"Start Headroom without that flag to change it here.")
		}
	}
	if c.MaxBytes != nil && *c.MaxBytes > 0 && *c.MaxBytes < leastCapBytes {
		return problem.New(problem.BadRequest,
			fmt.Sprintf("A cap of %d bytes keeps nothing", *c.MaxBytes),
			"one block of a small model takes about a megabyte",
			"Give a size in bytes, at least 1000000; 0 for the default; or turn the cache off.")
	}
	if c.Dir != nil && *c.Dir != "" {
		return checkDir(*c.Dir)
	}
	return nil
}

// checkDir accepts an absolute path to a folder, or to one that can be made beside others.
func checkDir(dir string) error {
	const fix = "Give the whole path of a folder, as /Volumes/Disk/headroom-cache."
	if !filepath.IsAbs(dir) {
		return problem.New(problem.BadRequest, "The cache cannot lie in "+dir,
			"it is no absolute path", fix)
	}
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		info, err = os.Stat(filepath.Dir(dir))
	}
	if err != nil {
		return problem.New(problem.BadRequest, "The cache cannot lie in "+dir, err.Error(), fix)
	}
	if !info.IsDir() {
		return problem.New(problem.BadRequest, "The cache cannot lie in "+dir, "it is no folder",
			fix)
	}
	return nil
}
