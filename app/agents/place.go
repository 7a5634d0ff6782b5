package agents

// Where configuration files and programs are. An app that was started from the Finder has none of
// the variables of the user's shell, and a short PATH.

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"unicode/utf8"

	"headroom/app/disk"
	"headroom/engine/problem"
)

// Environment is the user's system. Tests have their own.
type Environment struct {
	Home     string
	System   string              // as runtime.GOOS
	Variable func(string) string // nil: there are no variables
}

// Here returns the environment of this process.
func Here() Environment {
	home, _ := os.UserHomeDir()
	return Environment{Home: home, System: runtime.GOOS, Variable: os.Getenv}
}

func (e Environment) variable(name string) string {
	if e.Variable == nil {
		return ""
	}
	return e.Variable(name)
}

// folder returns the folder that a variable names, or else one in the home folder.
func (e Environment) folder(variable, name string) string {
	if dir := e.variable(variable); filepath.IsAbs(dir) {
		return dir
	}
	return filepath.Join(e.Home, name)
}

// configHome returns the folder of the XDG Base Directory Specification, also on a Mac.
func (e Environment) configHome() string { return e.folder("XDG_CONFIG_HOME", ".config") }

// programFolders are where installers put commands, in the home folder or elsewhere.
var programFolders = []string{"~/.local/bin", "~/.claude/local", "~/.opencode/bin", "~/.bun/bin",
	"~/.volta/bin", "~/.npm-global/bin", "~/.npm/bin", "~/bin", "~/.nvm/versions/node/*/bin",
	"~/.local/share/mise/shims", "~/.asdf/shims",
	"/opt/homebrew/bin", "/usr/local/bin", "/usr/bin", "/snap/bin"}

// program returns the path of one of the commands or apps; "" if none is found.
func (e Environment) program(a *agent) string {
	var folders []string
	for _, dir := range filepath.SplitList(e.variable("PATH")) {
		if filepath.IsAbs(dir) {
			folders = append(folders, dir)
		}
	}
	for _, pattern := range programFolders {
		if rest, ok := strings.CutPrefix(pattern, "~/"); ok {
			pattern = filepath.Join(e.Home, rest)
		}
		found, _ := filepath.Glob(pattern)
		folders = append(folders, found...)
	}
	for _, name := range a.programs {
		for _, dir := range folders {
			path := filepath.Join(dir, name)
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() &&
				info.Mode()&0o111 != 0 {
				return path
			}
		}
	}
	if e.System == "darwin" {
		for _, path := range a.apps {
			for _, path := range []string{path, filepath.Join(e.Home, path)} {
				if _, err := os.Stat(path); err == nil {
					return path
				}
			}
		}
	}
	return ""
}

// configFile is a configuration file as it was read.
type configFile struct {
	path   string // as the agent names it
	target string // where links lead; path without any
	// outside says that a link leads out of the home folder.
	outside bool
	exists  bool
	text    []byte
	mode    fs.FileMode // its permissions; those of a new file if it does not exist
}

// maxFile is the size of the largest file that is edited.
const maxFile = 1 << 20

// newFileMode are the permissions of a new file: it may have a key.
const newFileMode fs.FileMode = 0o600

// readConfig reads a configuration file. The error is a Problem.
func (e Environment) readConfig(path string) (configFile, error) {
	f := configFile{path: path, mode: newFileMode}
	refuse := func(err error, fix string) (configFile, error) {
		return f, problem.Wrap(problem.BadRequest, err, e.short(path)+" cannot be read", fix)
	}
	target, err := resolve(path)
	if err != nil {
		return refuse(err, "Repair or remove the link.")
	}
	f.target = target
	home, err := filepath.EvalSymlinks(e.Home)
	if err != nil {
		home = e.Home
	}
	f.outside = within(path, e.Home) && !within(target, home)
	data, info, err := disk.Read(target, maxFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return f, nil
	case err != nil:
		return refuse(err, "Check its permissions.")
	case !utf8.Valid(data):
		return refuse(errors.New("it is not UTF-8 text"), "Save it as UTF-8.")
	}
	f.exists, f.text, f.mode = true, data, info.Mode().Perm()
	return f, nil
}

// resolve returns where the links in a path lead, also if its last parts do not exist yet.
func resolve(path string) (string, error) {
	resolved, err := filepath.EvalSymlinks(path)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return resolved, err
	}
	if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		return "", fmt.Errorf("%s is a link to something that does not exist", path)
	}
	dir := filepath.Dir(path)
	if dir == path {
		return path, nil
	}
	parent, err := resolve(dir)
	return filepath.Join(parent, filepath.Base(path)), err
}

// linked reports whether a link leads to the file.
func (f configFile) linked(e Environment) bool {
	home, err := filepath.EvalSymlinks(e.Home)
	rel, relErr := filepath.Rel(e.Home, f.path)
	if err == nil && relErr == nil && filepath.IsLocal(rel) {
		return filepath.Join(home, rel) != f.target
	}
	return f.path != f.target
}

func within(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// short returns a path with ~ for the home folder.
func (e Environment) short(path string) string {
	if rel, err := filepath.Rel(e.Home, path); err == nil && filepath.IsLocal(rel) && e.Home != "" {
		return filepath.Join("~", rel)
	}
	return path
}
