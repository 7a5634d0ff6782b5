package settings

// The ranges of the values in the file. A value outside its range has its default, as one of the
// wrong type.

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
)

const (
	// MaxIdleMinutes is the largest IdleUnloadMinutes, a week.
	MaxIdleMinutes = 7 * 24 * 60
	// MaxWaitMinutes is the largest RequestWaitMinutes, a day.
	MaxWaitMinutes = 24 * 60
	// maxStallMs is the largest MaxPrefillStallMs, a day. No pass takes that long.
	maxStallMs = 24 * 60 * 60 * 1000
)

// checkModelFunc returns an error if the settings of a model are not valid. A nil function accepts
// all.
type checkModelFunc func(Model) error

// check returns the error of a value outside its range, or nil. If several are, it returns one of
// the errors.
func (s *Settings) check(model checkModelFunc) error {
	var level slog.Level
	switch {
	case s.Port < 1 || s.Port > 65535:
		return outside(s.Port, 1, 65535)
	case s.MachinesPort < 0 || s.MachinesPort > 65535:
		return outside(s.MachinesPort, 0, 65535)
	case !Sendable(s.APIKey):
		return errors.New("no request can send it: it has a space at an end or a control character")
	case s.MenuBarFigure != FigureNone && s.MenuBarFigure != FigureSpeed &&
		s.MenuBarFigure != FigureMemory:
		return fmt.Errorf("%q is not a value, expected %q, %q or %q", s.MenuBarFigure, FigureSpeed,
			FigureMemory, FigureNone)
	case s.Launch != LaunchAsLeft && s.Launch != LaunchOn && s.Launch != LaunchOff:
		return fmt.Errorf("%q is not a value, expected %q, %q or %q", s.Launch, LaunchOn, LaunchOff,
			LaunchAsLeft)
	case s.LogLevel != "" && level.UnmarshalText([]byte(s.LogLevel)) != nil:
		return fmt.Errorf("%q is not a level, expected debug, info, warn or error", s.LogLevel)
	case s.IdleUnloadMinutes < 0 || s.IdleUnloadMinutes > MaxIdleMinutes:
		return outside(s.IdleUnloadMinutes, 0, MaxIdleMinutes)
	case s.RequestWaitMinutes < 0 || s.RequestWaitMinutes > MaxWaitMinutes:
		return outside(s.RequestWaitMinutes, 0, MaxWaitMinutes)
	case s.ImportFolder != "" && !filepath.IsAbs(s.ImportFolder):
		return relative(s.ImportFolder)
	}
	if err := s.Cache.check(); err != nil || model == nil {
		return err
	}
	for _, m := range s.Models {
		if err := model(m); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cache) check() error {
	switch {
	case c.Dir != "" && !filepath.IsAbs(c.Dir):
		return relative(c.Dir)
	case c.PromptCacheSize < 0:
		return fmt.Errorf("%d is negative", c.PromptCacheSize)
	case c.MaxPrefillStallMs < 0 || c.MaxPrefillStallMs > maxStallMs:
		return outside(c.MaxPrefillStallMs, 0, maxStallMs)
	}
	return nil
}

func outside(n, from, to int) error {
	return fmt.Errorf("%d is out of range, expected %d to %d", n, from, to)
}

// relative is the error of a path that would depend on the folder in which Headroom was started.
func relative(path string) error {
	return fmt.Errorf("%q is not an absolute path", path)
}
