package main

// Installing the clients, in the versions of the lock files, into bin/clients. A copy of the lock
// file beside each installation says what it has.

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
)

const (
	source = "build/clients" // with the lock files
	target = "bin/clients"
	// uv installs from the registry of pip as pip does, but in seconds instead of minutes.
	uvPackage = "uv==0.13.9"
)

// pythonPackages are the environments of Python.
var pythonPackages = []origin{sdkPackages, aiderPackages, formPackages}

// tools are the installations.
type tools struct {
	dir      string // target, absolute
	versions map[string]string
}

// install installs what the clients need and returns where it is.
func install(ctx context.Context, chosen []client) (tools, error) {
	dir, err := filepath.Abs(target)
	if err != nil {
		return tools{}, err
	}
	if _, err := os.Stat(filepath.Join(source, "package.json")); err != nil {
		return tools{}, fmt.Errorf("%w; run this in the root of the repository", err)
	}
	t := tools{dir: dir}
	if t.versions, err = lockedVersions(source); err != nil {
		return t, err
	}
	for _, origin := range append([]origin{npm}, pythonPackages...) {
		if !slices.ContainsFunc(chosen, func(c client) bool { return c.from == origin }) {
			continue
		}
		begin := time.Now()
		install := t.python
		if origin == npm {
			install = t.npm
		}
		fresh, err := install(ctx, origin)
		if err != nil {
			return t, err
		}
		if fresh {
			fmt.Printf("clients: installed %s (%s)\n", origin,
				time.Since(begin).Round(time.Second))
		}
	}
	return t, nil
}

// stamp compares a lock file with its copy beside an installation. done writes the copy.
func stamp(lock, dir string) (same bool, done func() error, err error) {
	want, err := os.ReadFile(lock)
	if err != nil {
		return false, nil, err
	}
	path := filepath.Join(dir, ".installed")
	got, _ := os.ReadFile(path)
	return bytes.Equal(want, got), func() error { return os.WriteFile(path, want, 0o644) }, nil
}

// npm installs the packages of package-lock.json. Only the agents that copy their program into
// place run their install scripts. It is not npm ci, which refuses a lock file without the packages
// for other systems, of which a registry need not have all.
func (t tools) npm(ctx context.Context, _ origin) (fresh bool, err error) {
	dir := filepath.Join(t.dir, "npm")
	same, done, err := stamp(filepath.Join(source, "package-lock.json"), dir)
	if same || err != nil {
		return false, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return false, err
	}
	for _, name := range []string{"package.json", "package-lock.json"} {
		data, err := os.ReadFile(filepath.Join(source, name))
		if err != nil {
			return false, err
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			return false, err
		}
	}
	quiet := []string{"--no-audit", "--no-fund", "--loglevel=error"}
	if err := command(ctx, dir, "npm", append([]string{"install", "--ignore-scripts"},
		quiet...)...); err != nil {
		return false, err
	}
	if err := command(ctx, dir, "npm", append([]string{"rebuild", "@anthropic-ai/claude-code",
		"opencode-ai"}, quiet...)...); err != nil {
		return false, err
	}
	return true, done()
}

// python makes a virtual environment with the packages of a lock file.
func (t tools) python(ctx context.Context, from origin) (fresh bool, err error) {
	dir := filepath.Join(t.dir, string(from))
	lock, err := filepath.Abs(filepath.Join(source, string(from)+".txt"))
	if err != nil {
		return false, err
	}
	same, done, err := stamp(lock, dir)
	if same || err != nil {
		return false, err
	}
	uv := filepath.Join(t.dir, "uv")
	if _, err := os.Stat(filepath.Join(uv, "bin/uv")); err != nil {
		if err := command(ctx, ".", "python3", "-m", "venv", uv); err != nil {
			return false, err
		}
		if err := command(ctx, ".", filepath.Join(uv, "bin/python"), "-m", "pip", "install",
			"--quiet", "--disable-pip-version-check", uvPackage); err != nil {
			return false, err
		}
	}
	if err := command(ctx, ".", "python3", "-m", "venv", "--without-pip", "--clear",
		dir); err != nil {
		return false, err
	}
	if err := command(ctx, ".", filepath.Join(uv, "bin/uv"), "pip", "sync", "--quiet",
		"--python", filepath.Join(dir, "bin/python"), lock); err != nil {
		return false, err
	}
	return true, done()
}

// command runs a program of the installation.
func command(ctx context.Context, dir, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return nil
}

// path returns the path of a program of an installation.
func (t tools) path(from origin, name string) string {
	if from == npm {
		return filepath.Join(t.dir, "npm/node_modules/.bin", name)
	}
	return filepath.Join(t.dir, string(from), "bin", name)
}

// bytecode returns the variable that lets Python keep compiled modules, but not beside the scripts.
func (t tools) bytecode() string {
	return "PYTHONPYCACHEPREFIX=" + filepath.Join(t.dir, "pycache")
}

// node returns the folder of the Node.js that agents need, "" for the system's.
func (t tools) node() string {
	arch := map[string]string{"amd64": "x64"}[runtime.GOARCH]
	if arch == "" {
		arch = runtime.GOARCH
	}
	dir := filepath.Join(t.dir, "npm/node_modules", "node-"+runtime.GOOS+"-"+arch, "bin")
	if _, err := os.Stat(dir); err != nil {
		return ""
	}
	return dir
}

// version returns the version of a client's package.
func (t tools) version(c client) string { return cmp.Or(c.version, t.versions[c.key()]) }

var requirement = regexp.MustCompile(`(?m)^([a-z0-9-]+)(?:\[[a-z,]+\])?==(\S+)`)

// lockedVersions returns the versions of all packages in the lock files of a folder, by the
// client.key of their clients, and those of Go's modules in go.mod.
func lockedVersions(dir string) (map[string]string, error) {
	versions := map[string]string{}
	data, err := os.ReadFile(filepath.Join(dir, "package.json"))
	if err != nil {
		return nil, err
	}
	var listed struct{ Dependencies map[string]string }
	if err := json.Unmarshal(data, &listed); err != nil {
		return nil, fmt.Errorf("package.json: %w", err)
	}
	for name, v := range listed.Dependencies {
		versions[npm.key(name)] = v
	}
	for _, from := range pythonPackages {
		data, err := os.ReadFile(filepath.Join(dir, string(from)+".txt"))
		if err != nil {
			return nil, err
		}
		for _, found := range requirement.FindAllStringSubmatch(string(data), -1) {
			versions[from.key(found[1])] = found[2]
		}
	}
	data, err = os.ReadFile(filepath.Join(dir, "../../go.mod"))
	if err != nil {
		return nil, err
	}
	for _, found := range regexp.MustCompile(`(?m)^\s*(?:require )?(\S+\.\S+/\S+) v(\S+)`).
		FindAllStringSubmatch(string(data), -1) {
		versions[goModules.key(found[1])] = found[2]
	}
	return versions, nil
}
