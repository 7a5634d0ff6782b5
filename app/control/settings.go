package control

// The settings of the disk cache over HTTP. They are saved in the settings file. New limits apply
// to the open cache at once. The switch and the folder take effect at the next start, because the
// running engine has the old cache open. A command-line flag overrides the file; such a setting is
// shown here, but cannot be changed.

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

// CacheSettings is the response of /control/settings/cache. Sizes are in bytes: 0 means the
// default, a negative number no limit.
type CacheSettings struct {
	On              bool   `json:"on"`
	Dir             string `json:"dir"`
	MaxBytes        int64  `json:"maxBytes"`
	MinFreeBytes    int64  `json:"minFreeBytes"`
	DailyWriteBytes int64  `json:"dailyWriteBytes"`

	ReadOnly []string `json:"readOnly"` // names of the fields above that the command line sets
	// NeedsRestart names the fields above whose new value takes effect at the next start.
	NeedsRestart []string `json:"needsRestart"`
}

// CacheChange is the body of PUT /control/settings/cache. A missing field does not change. An empty
// Dir means the default folder.
type CacheChange struct {
	On              *bool   `json:"on"`
	Dir             *string `json:"dir"`
	MaxBytes        *int64  `json:"maxBytes"`
	MinFreeBytes    *int64  `json:"minFreeBytes"`
	DailyWriteBytes *int64  `json:"dailyWriteBytes"`
}

// minCapBytes is the smallest limit of the cache's size: about one block of a small model.
const minCapBytes = 1e6

func (a *API) settingsRoutes() []Route {
	return []Route{
		route("GET /control/settings/cache", "Returns the settings of the disk cache.", "",
			func(*http.Request, nothing) (CacheSettings, error) { return a.cacheSettings(), nil }),
		route("PUT /control/settings/cache",
			"Changes the settings in the body. New limits take effect at once, the switch and the "+
				"folder at the next start.",
			`{"maxBytes": 20000000000}`,
			func(_ *http.Request, c CacheChange) (CacheSettings, error) {
				if err := a.changeCache(c); err != nil {
					return CacheSettings{}, err
				}
				return a.cacheSettings(), nil
			}),
	}
}

// cacheSettings returns the settings: those of the command line, else those of the file.
func (a *API) cacheSettings() CacheSettings {
	s, flags, running := a.settings.Get().Cache, a.cacheFlags, a.host.State().Cache
	c := CacheSettings{
		On:              !flags.Off && (!s.Off || flags.Dir != ""),
		Dir:             cmp.Or(flags.Dir, s.Dir, cache.DefaultDir()),
		MaxBytes:        int64(cmp.Or(flags.MaxSize, s.MaxSize)),
		MinFreeBytes:    int64(cmp.Or(flags.MinFree, s.MinFree)),
		DailyWriteBytes: int64(cmp.Or(flags.DailyWrites, s.DailyWrites)),
		ReadOnly:        []string{},
		NeedsRestart:    []string{},
	}
	for _, f := range []struct {
		name     string
		readOnly bool
	}{{"on", flags.Off || flags.Dir != ""}, {"dir", flags.Dir != ""},
		{"maxBytes", flags.MaxSize != 0}, {"minFreeBytes", flags.MinFree != 0},
		{"dailyWriteBytes", flags.DailyWrites != 0}} {
		if f.readOnly {
			c.ReadOnly = append(c.ReadOnly, f.name)
		}
	}
	if c.On != (running.Dir != "") {
		c.NeedsRestart = append(c.NeedsRestart, "on")
	} else if c.On && c.Dir != running.Dir {
		c.NeedsRestart = append(c.NeedsRestart, "dir")
	}
	return c
}

// changeCache saves the change and applies new limits. The error is a Problem.
func (a *API) changeCache(c CacheChange) error {
	if err := a.checkCache(c); err != nil {
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
			"The settings could not be saved; they apply until Headroom quits", "")
	}
	if c.MaxBytes == nil && c.MinFreeBytes == nil && c.DailyWriteBytes == nil {
		return nil
	}
	now := a.cacheSettings()
	return a.host.SetCacheLimits(engine.BlockStoreLimits{MaxBytes: now.MaxBytes,
		MinFreeBytes: now.MinFreeBytes, DailyWriteBytes: now.DailyWriteBytes})
}

// checkCache returns a Problem if the change is not valid.
func (a *API) checkCache(c CacheChange) error {
	sent := map[string]bool{"on": c.On != nil, "dir": c.Dir != nil, "maxBytes": c.MaxBytes != nil,
		"minFreeBytes": c.MinFreeBytes != nil, "dailyWriteBytes": c.DailyWriteBytes != nil}
	for _, name := range a.cacheSettings().ReadOnly {
		if sent[name] {
			return problem.New(problem.BadRequest, "This setting cannot be changed here",
				name+" is set on the command line",
				"Start Headroom without that flag to change it here.")
		}
	}
	if c.MaxBytes != nil && *c.MaxBytes > 0 && *c.MaxBytes < minCapBytes {
		return problem.New(problem.BadRequest,
			fmt.Sprintf("A limit of %d bytes is too small", *c.MaxBytes),
			"one block of a small model takes about a megabyte",
			"Send at least 1000000 bytes, or 0 for the default, or turn the cache off.")
	}
	if c.Dir != nil && *c.Dir != "" {
		return checkDir(*c.Dir)
	}
	return nil
}

// checkDir returns a Problem unless dir is the absolute path of a folder, or of a new folder in an
// existing one.
func checkDir(dir string) error {
	const fix = "Enter the full path of a folder, such as /Volumes/Disk/headroom-cache."
	if !filepath.IsAbs(dir) {
		return problem.New(problem.BadRequest, "The cache cannot be in "+dir,
			"it is not an absolute path", fix)
	}
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		info, err = os.Stat(filepath.Dir(dir))
	}
	if err != nil {
		return problem.New(problem.BadRequest, "The cache cannot be in "+dir, err.Error(), fix)
	}
	if !info.IsDir() {
		return problem.New(problem.BadRequest, "The cache cannot be in "+dir, "it is not a folder",
			fix)
	}
	return nil
}
