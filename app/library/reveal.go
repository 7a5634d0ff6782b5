package library

// Showing a model's folder in the Finder, or in the desktop's file manager. Only places of listed
// models are shown, so that no page can open anything else.

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"headroom/engine/problem"
)

// revealTimeout bounds the system's command.
const revealTimeout = 5 * time.Second

// Reveal shows the place at path, or the first place if path is "". The error is a Problem.
func (l *Library) Reveal(m Model, path string) error {
	if m.Bundled {
		return problem.New(problem.BadRequest, "The bundled model has no folder",
			"it is part of the program", "")
	}
	if path == "" {
		path = m.Dir
	}
	for _, p := range m.Places {
		if p.Dir == path {
			return show(path)
		}
	}
	return problem.New(problem.NotFound, "The model "+m.ID+" is not in "+path, "",
		"Refresh the list: it may have been moved or removed.")
}

// show shows a file or folder in the file manager.
func show(path string) error {
	if _, err := os.Lstat(path); err != nil {
		return problem.Wrap(problem.NotFound, err, "The folder no longer exists",
			"Refresh the list of models.")
	}
	ctx, cancel := context.WithTimeout(context.Background(), revealTimeout)
	defer cancel()
	name, args := revealer(path)
	if out, err := exec.CommandContext(ctx, name, args...).CombinedOutput(); err != nil {
		return problem.Wrap(problem.Internal,
			fmt.Errorf("%s: %w %s", name, err, strings.TrimSpace(string(out))),
			"The folder cannot be shown here",
			"Open it by hand: "+path)
	}
	return nil
}

// revealer returns the system's command. A path is absolute, so it cannot be taken for an option.
func revealer(path string) (name string, args []string) {
	if runtime.GOOS == "darwin" {
		return "/usr/bin/open", []string{"-R", path}
	}
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		path = filepath.Dir(path)
	}
	return "xdg-open", []string{path}
}
