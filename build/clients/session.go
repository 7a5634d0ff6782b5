package main

// Running the programs of one client.

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// session is a run of one client, in folders of its own.
type session struct {
	bench      *bench
	client     client
	home, work string
	commands   int
}

// path returns the path of a program of the client's installation.
func (s *session) path(name string) string { return s.bench.tools.path(s.client.from, name) }

// write writes a file of the client's home folder and returns its path.
func (s *session) write(name, text string) (string, error) {
	path := filepath.Join(s.home, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", err
	}
	return path, os.WriteFile(path, []byte(text), 0o600)
}

// command runs a program in the work folder and returns what it prints to standard output. The
// environment has the variables of env and little else.
func (s *session) command(ctx context.Context, env []string, name string, args ...string) (string,
	error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = s.work
	path := os.Getenv("PATH")
	if node := s.bench.tools.node(); node != "" {
		path = node + string(os.PathListSeparator) + path
	}
	cmd.Env = append(homeVariables(s.home), "PATH="+path, "LANG=C.UTF-8", "TERM=dumb", "NO_COLOR=1",
		"TMPDIR="+s.bench.dir)
	cmd.Env = append(cmd.Env, env...)
	cmd.WaitDelay = 5 * time.Second // for children that keep the pipes open
	var out, all bytes.Buffer
	cmd.Stdout, cmd.Stderr = &both{&out, &all}, &all
	err := cmd.Run()
	s.commands++
	log := filepath.Join(filepath.Dir(s.work), fmt.Sprintf("command%d.log", s.commands))
	_ = os.WriteFile(log, all.Bytes(), 0o600)
	if s.bench.verbose {
		fmt.Fprintf(os.Stderr, "%s %s\n%s\n", filepath.Base(name), strings.Join(args, " "), &all)
	}
	if err != nil {
		text := all.String()
		err = fmt.Errorf("%s: %w; it printed: …%s", filepath.Base(name), err,
			text[max(0, len(text)-3000):])
	}
	return out.String(), err
}

// both writes to two buffers.
type both struct{ a, b *bytes.Buffer }

func (w *both) Write(data []byte) (int, error) {
	w.a.Write(data)
	return w.b.Write(data)
}
