package agents

// Starting an agent with its settings in the environment and in arguments, so that no file of its
// own changes. A terminal runs a script, which removes itself first: it may have a key.

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"headroom/app/disk"
	"headroom/engine/problem"
)

// Variable is an environment variable.
type Variable struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Command runs an agent.
type Command struct {
	Env  []Variable
	Args []string // the first is the name of the program
}

// Text returns the command as lines of a shell.
func (c Command) Text() string {
	var b strings.Builder
	for _, v := range c.Env {
		fmt.Fprintf(&b, "export %s=%s\n", v.Name, shellQuoted(v.Value))
	}
	words := make([]string, len(c.Args))
	for i, arg := range c.Args {
		words[i] = shellQuoted(arg)
	}
	return b.String() + strings.Join(words, " ")
}

// folder returns the folder of the program, which belongs on the PATH: what runs it, such as
// Node.js, is often there. "" means that the program is looked up on the PATH.
func (c Command) folder() string {
	if !filepath.IsAbs(c.Args[0]) {
		return ""
	}
	return filepath.Dir(c.Args[0])
}

// Environ returns the environment for running the command without a shell. base is that of the
// process.
func (c Command) Environ(base []string) []string {
	list := slices.Clone(base)
	if dir := c.folder(); dir != "" {
		path := ""
		for _, v := range base {
			if value, ok := strings.CutPrefix(v, "PATH="); ok {
				path = value
			}
		}
		list = append(list, "PATH="+strings.TrimSuffix(dir+string(filepath.ListSeparator)+path,
			string(filepath.ListSeparator)))
	}
	for _, v := range c.Env {
		list = append(list, v.Name+"="+v.Value)
	}
	return list
}

// shellQuoted returns a word for any shell, in quotes if it needs them.
func shellQuoted(word string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=@%+,"
	if word != "" && strings.Trim(word, plain) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// Warnings returns sentences about what will not work when an agent is launched.
func (s *Store) Warnings(id string, t Target) []string {
	a, err := find(id)
	if err != nil {
		return nil
	}
	return a.warnings(t, s.env)
}

// LaunchPlan returns the command that Launch runs, as lines of a shell, with the key hidden. It is
// "" for an agent without one.
func (s *Store) LaunchPlan(id string, t Target) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, r, err := s.recorded(id)
	if err == nil {
		err = t.check()
	}
	if err != nil || a.command == nil {
		return "", err
	}
	key := s.keyFor(t, r)
	return masked(a.command(t, key).Text(), key), nil
}

// Command returns the command that runs an agent, and makes a key for it if it needs one. The error
// is a Problem.
func (s *Store) Command(id string, t Target) (Command, error) {
	unlock, err := s.lock()
	if err != nil {
		return Command{}, err
	}
	defer unlock()
	a, r, err := s.recorded(id)
	if err == nil {
		err = t.check()
	}
	if err != nil {
		return Command{}, err
	}
	if a.command == nil {
		return Command{}, problem.New(problem.BadRequest, a.name+" cannot be launched like this",
			"it has no command that takes these settings", "Write its configuration instead.")
	}
	key, r, made, err := s.ensureKey(a, t, r)
	if err == nil && made {
		if err = s.save(id, r); err != nil {
			_, _, _ = s.keys.Remove(r.KeyID)
		}
	}
	if err != nil {
		return Command{}, err
	}
	c := a.command(t, key)
	if path := s.env.program(a); path != "" {
		c.Args[0] = path
	}
	return c, nil
}

// Launch opens a terminal that runs an agent in a folder; "" is the home folder. The error is a
// Problem.
func (s *Store) Launch(id string, t Target, folder string) error {
	if folder == "" {
		folder = s.env.Home
	}
	if info, err := os.Stat(folder); err != nil || !info.IsDir() || !filepath.IsAbs(folder) {
		return problem.New(problem.BadRequest, "There is no folder "+quoted(folder), "",
			"Give the whole path of your project's folder.")
	}
	opener := s.env.terminal()
	if opener == nil {
		return problem.New(problem.NotFound, "No terminal was found",
			"none of "+joined(terminalNames())+" is installed",
			"Run the command in a terminal of yours, or `headroom agents launch "+id+"`.")
	}
	c, err := s.Command(id, t)
	if err != nil {
		return err
	}
	path, err := s.writeScript(scriptOf(c, folder))
	if err == nil {
		if err = s.run(append(opener, path)); err != nil {
			_ = os.Remove(path)
		}
	}
	if err != nil {
		return problem.Wrap(problem.Internal, err, "The terminal could not be opened",
			"Run `headroom agents launch "+id+"` in a terminal.")
	}
	return nil
}

// scriptBegin begins every script.
const scriptBegin = "#!/bin/sh\n# Written by Headroom. It removes itself.\nrm -f -- \"$0\"\n"

// scriptOf returns a script that runs a command in a folder.
func scriptOf(c Command, folder string) string {
	var b strings.Builder
	b.WriteString(scriptBegin)
	fmt.Fprintf(&b, "cd -- %s || exit 1\n", shellQuoted(folder))
	if dir := c.folder(); dir != "" {
		fmt.Fprintf(&b, "PATH=%s:\"$PATH\"\nexport PATH\n", shellQuoted(dir))
	}
	b.WriteString(c.Text())
	// A terminal closes at once, and nobody could read why the agent did not start.
	b.WriteString("\nstatus=$?\nif [ \"$status\" -ne 0 ]; then\n" +
		"\tprintf '\\nIt ended with status %s. Press Return to close this window. ' \"$status\"\n" +
		"\tread -r _\nfi\nexit \"$status\"\n")
	return b.String()
}

// scriptAge is how long a terminal may take to run a script.
const scriptAge = 10 * time.Minute

// writeScript writes a script that only the user can read.
func (s *Store) writeScript(text string) (path string, err error) {
	old, _ := filepath.Glob(filepath.Join(s.dir, "launch-*.command"))
	for _, path := range old { // of terminals that never ran them
		data, info, err := disk.Read(path, maxFile)
		if err == nil && strings.HasPrefix(string(data), scriptBegin) &&
			time.Since(info.ModTime()) > scriptAge {
			_ = os.Remove(path)
		}
	}
	file, err := os.CreateTemp(s.dir, "launch-*.command")
	if err != nil {
		return "", err
	}
	_, err = file.WriteString(text)
	if err == nil {
		err = file.Chmod(0o700)
	}
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		_ = os.Remove(file.Name())
	}
	return file.Name(), err
}

// terminals are the terminals of Linux, with the arguments before the program: first the system's
// own choice.
var terminals = [][]string{{"xdg-terminal-exec"}, {"x-terminal-emulator", "-e"},
	{"gnome-terminal", "--"}, {"konsole", "-e"}, {"xfce4-terminal", "-x"}, {"ptyxis", "--"},
	{"kgx", "--"}, {"alacritty", "-e"}, {"kitty"}, {"foot"}, {"xterm", "-e"}}

func terminalNames() (names []string) {
	for _, t := range terminals {
		names = append(names, t[0])
	}
	return names
}

// terminal returns the arguments that open a script in a terminal; nil if there is none. On a Mac,
// Terminal opens .command files; unlike a script of AppleScript, that needs no permission.
func (e Environment) terminal() []string {
	if e.System == "darwin" {
		return []string{"/usr/bin/open", "-a", "Terminal"}
	}
	for _, t := range terminals {
		for _, dir := range filepath.SplitList(e.variable("PATH")) {
			path := filepath.Join(dir, t[0])
			if info, err := os.Stat(path); err == nil && info.Mode()&0o111 != 0 && !info.IsDir() {
				return append([]string{path}, t[1:]...)
			}
		}
	}
	return nil
}

// start starts a program and does not wait for it.
func start(argv []string) error {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = "/"
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() { _ = cmd.Wait() }()
	return nil
}
