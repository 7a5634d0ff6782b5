package service

import (
	"log/slog"
	"os"
	"path/filepath"
	"runtime"

	"headroom/app/control"
	"headroom/app/settings"
	"headroom/app/update"
	"headroom/app/version"
)

// newUpdates returns what keeps this program up to date, by the feed in the settings.
func newUpdates(file *settings.File) *update.Updater {
	dir := filepath.Dir(file.Path())
	program := "headroom"
	if runtime.GOOS == "darwin" {
		program = "Contents/MacOS/headroom"
	}
	install := ""
	if own, err := os.Executable(); err == nil {
		install = update.Installed(own)
	}
	return update.New(update.Options{Version: version.Version,
		File: filepath.Join(dir, "update.json"), Install: install, Program: program,
		Feed: func() (address, key string) {
			s := file.Get()
			return s.UpdateFeed, s.UpdateKey
		},
		Alone: func() bool { return len(control.Running(dir)) == 0 }})
}

// applyUpdate lets an update that is ready take the place of this version. Nothing of this service
// runs any more.
func (s *Service) applyUpdate() {
	s.Updates.Close()
	to, err := s.Updates.Apply()
	if err != nil {
		slog.Error("the update was not applied", "err", err)
	} else if to != "" {
		slog.Info("the next start runs another version", "version", to)
	}
}
