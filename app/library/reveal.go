package library

// Showing a model's folder in the system's file manager: on a Mac the Finder with the folder
// chosen, elsewhere what the desktop opens folders with. Only places of listed models are shown, so
// that no page can have anything else opened.

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

// revealTime is how long the system may take to say that it could not.
const revealTime = 5 * time.Second

// Reveal shows the place at path, or "" for the first one.
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
	return problem.New(problem.NotFound, "The model "+m.ID+" does not lie in "+path, "",
		"Look again: it may have been moved or removed.")
}

// show has the system show a file or folder.
func show(path string) error {
	if _, err := os.Lstat(path); err != nil {
		return problem.Wrap(problem.NotFound, err, "The folder is not there any more",
			"Look for the model again.")
	}
	ctx, cancel := context.WithTimeout(context.Background(), revealTime)
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

// revealer is the system's command. A path is absolute, so it is never taken for an option.
func revealer(path string) (name string, args []string) {
	if runtime.GOOS == "darwin" {
		return "/usr/bin/open", []string{"-R", path}
	}
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		path = filepath.Dir(path)
	}
	return "xdg-open", []string{path}
}
