package train

// The Python environment with mlx-lm: a folder that only Headroom uses. It is made once, after
// asking, from requirements whose versions are pinned and whose files are checked by their hashes.
//
// It is installed into a folder beside it and renamed when all of it is there and mlx-lm can be
// imported. So an installation that was stopped is never used. The name has the hash of the
// requirements: another version of Headroom with others makes its own, and removes the old one.

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"headroom/app/disk"
	"headroom/app/library"
	"headroom/engine/problem"
)

//go:embed requirements.txt
var requirements []byte

// About the environment, for the question before it is made. Measured with Python 3.11 on Linux
// x86_64; a Mac's is of about the same size.
const (
	DiskBytes  = 350 << 20
	Source     = "PyPI, or the index that pip or uv is set up for"
	Packages   = "mlx-lm 0.32.2, mlx 0.32.4 and what they require"
	minPython  = 11 // the minor version of Python 3: that of mlx-lm
	maxPython  = 14 // all requirements have files for it
	folderName = "python"
	lockName   = "lock"
	usedName   = "used" // locked, shared, by what runs beside trainings
)

// Environment is the Python environment in a folder of its own.
type Environment struct {
	dir string // has the environments and the lock
}

// DefaultEnvironment returns the environment in Headroom's data folder.
func DefaultEnvironment() Environment {
	data := library.Data()
	if data == "" {
		return Environment{}
	}
	return EnvironmentIn(filepath.Join(data, folderName))
}

// EnvironmentIn returns the environment in a folder, which only it uses.
func EnvironmentIn(dir string) Environment { return Environment{dir} }

// Dir returns its folder, "" without a home folder. It need not exist.
func (e Environment) Dir() string { return e.dir }

func (e Environment) current() string {
	sum := sha256.Sum256(requirements)
	return filepath.Join(e.dir, "mlx-lm-"+hex.EncodeToString(sum[:6]))
}

// python returns the interpreter of an environment in a folder.
func python(dir string) string { return filepath.Join(dir, "bin", "python") }

// Temp makes and returns the folder for temporary files. On Linux, mlx keeps and loads compiled
// kernels there: in the system's folder, another user could place one.
func (e Environment) Temp() (string, error) {
	dir := filepath.Join(e.current(), "tmp")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", environmentProblem(err)
	}
	return dir, nil
}

// Ready reports whether the environment has been made, and its Python still exists.
func (e Environment) Ready() bool {
	_, err := os.Stat(python(e.current()))
	return e.dir != "" && err == nil
}

// Tools reports what makes the environment, such as "uv". The error is a Problem: a Python is
// missing.
func (e Environment) Tools(ctx context.Context) (name string, err error) {
	t, err := findTools(ctx)
	return t.name(), inWindow(err)
}

// Lock keeps the environment from being removed or made by another process. The error is a Problem:
// another training uses it.
func (e Environment) Lock() (unlock func(), err error) {
	if e.dir == "" {
		return nil, notStarted(problem.Internal, "Set HOME.", "there is no home folder")
	}
	if err := os.MkdirAll(e.dir, 0o700); err != nil {
		return nil, environmentProblem(err)
	}
	lock, err := disk.TryLock(filepath.Join(e.dir, lockName), 0o600)
	if errors.Is(err, disk.ErrLocked) {
		return nil, notStarted(problem.Busy, "Wait until it has ended, or pause it by Ctrl-C.",
			"another training is running, or its environment is being installed")
	}
	if err != nil {
		return nil, environmentProblem(err)
	}
	return func() { _ = lock.Unlock() }, nil
}

// Use keeps the environment from being removed or made by others until release. Unlike Lock it may
// be held several times: by the ranks of a cluster, while a training runs too. The error is a
// Problem: the environment is not installed, or is being removed.
func (e Environment) Use() (release func(), err error) {
	if !e.Ready() {
		return nil, problem.New(problem.NotFound, "The Python environment is not installed", "",
			"Install it: headroom cluster start and headroom train ask for that.")
	}
	lock, err := disk.TryLockShared(filepath.Join(e.dir, usedName), 0o600)
	if errors.Is(err, disk.ErrLocked) {
		return nil, problem.New(problem.Busy, "The Python environment cannot be used now",
			"it is being removed or installed", "Try again.")
	}
	if err != nil {
		return nil, environmentProblem(err)
	}
	return func() { _ = lock.Unlock() }, nil
}

// Name names the requirements of the environment: two with the same name have the same packages.
func (e Environment) Name() string { return filepath.Base(e.current()) }

func environmentProblem(err error) error {
	return problem.Wrap(problem.Internal, err, "The Python environment cannot be used", "")
}

// Remove deletes the environment and the bundled model's folder. It does nothing if there is none.
func (e Environment) Remove() error {
	if _, err := os.Lstat(e.dir); e.dir == "" || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	unlock, err := e.Lock()
	if problem.From(err).Code == problem.Busy {
		return problem.New(problem.Busy, "It is in use", "a training is running, or it is being "+
			"installed", "Pause the training by Ctrl-C first.")
	}
	if err != nil {
		return err
	}
	defer unlock()
	if err := e.clear(); err != nil {
		return err
	}
	if err := errors.Join(e.removeBundled(), os.Remove(filepath.Join(e.dir, usedName)),
		os.Remove(filepath.Join(e.dir, lockName))); err != nil {
		return err
	}
	_ = os.Remove(e.dir) // it stays if others have put something there
	return nil
}

// Install makes the environment. The caller holds the lock, and has asked. Progress gets lines of
// what is done. The error is a Problem, or ctx's.
func (e Environment) Install(ctx context.Context, progress io.Writer) error {
	free, err := disk.FreeBytes(e.dir)
	if err == nil && free < 2*DiskBytes {
		return notStarted(problem.DiskFull, "Free disk space.", "the Python environment needs %d "+
			"MB of disk space to install, and %d MB are free", 2*DiskBytes>>20, free>>20)
	}
	if err := e.clear(); problem.From(err).Code == problem.Busy { // of another version
		return err
	} else if err != nil {
		return environmentProblem(err)
	}
	t, err := findTools(ctx)
	if err != nil {
		return err
	}
	dir := filepath.Join(e.dir, ".installing")
	fmt.Fprintf(progress, "Installing with %s, by %s.\n", t.python, t.name())
	if err = t.install(ctx, dir); err == nil {
		err = os.Rename(dir, e.current())
	}
	if err == nil {
		disk.SyncDir(e.dir)
		return nil
	}
	err = errors.Join(err, os.RemoveAll(dir))
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return problem.Wrap(problem.Upstream, err, "The Python environment could not be installed",
		"Look at the last line above. Nothing was left; run the command again to try again.")
}

// ours matches the names of the folders that Install makes.
var ours = regexp.MustCompile(`^(mlx-lm-[0-9a-f]{12}|\.installing)$`)

// clear removes all environments, and nothing else. It follows no links. The error is a Problem if
// one is in use.
func (e Environment) clear() error {
	used, err := disk.TryLock(filepath.Join(e.dir, usedName), 0o600)
	if errors.Is(err, disk.ErrLocked) {
		return problem.New(problem.Busy, "The Python environment is in use",
			"a cluster runs with it", "Stop the cluster first.")
	}
	if err != nil {
		return err
	}
	defer func() { _ = used.Unlock() }()
	entries, err := os.ReadDir(e.dir)
	for _, entry := range entries {
		if entry.IsDir() && ours.MatchString(entry.Name()) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(e.dir, entry.Name())))
		}
	}
	return err
}

// tools make environments: a Python, and uv if it is there.
type tools struct{ python, uv string }

func (t tools) name() string {
	if t.uv != "" {
		return "uv"
	}
	return "venv and pip"
}

// findTools finds a Python that mlx-lm runs with. The error is a Problem.
func findTools(ctx context.Context) (t tools, err error) {
	t.uv, _ = exec.LookPath("uv")
	var seen []string
	for minor := maxPython; minor >= minPython-1; minor-- {
		name := fmt.Sprintf("python3.%d", minor)
		if minor < minPython {
			name = "python3"
		}
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		version, ok := suits(ctx, path)
		if ok {
			t.python = path
			return t, nil
		}
		if version != "" {
			seen = append(seen, path+" is "+version)
		}
	}
	found := "none was found"
	if len(seen) > 0 {
		found = strings.Join(seen, ", ")
	}
	return t, notStarted(problem.LowResources, "Install one, for example from python.org or with "+
		"Homebrew: brew install python@3.12", "mlx-lm needs Python 3.%d to 3.%d, and %s",
		minPython, maxPython, found)
}

// suits returns the version of a Python, and whether mlx-lm runs with it.
func suits(ctx context.Context, path string) (version string, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "-I", "-c",
		`import sys; print("%d.%d" % sys.version_info[:2])`).Output()
	if err != nil {
		return "", false
	}
	version = strings.TrimSpace(string(out))
	var major, minor int
	_, err = fmt.Sscanf(version, "%d.%d", &major, &minor)
	return version, err == nil && major == 3 && minor >= minPython && minor <= maxPython
}

// install makes an environment in a folder, and imports mlx-lm with it.
func (t tools) install(ctx context.Context, dir string) error {
	list := filepath.Join(dir, "requirements.txt")
	create := []string{t.python, "-I", "-m", "venv", dir}
	// Files are checked by hash, and no package runs code of its own to be built.
	fill := []string{python(dir), "-I", "-m", "pip", "install", "--quiet", "--no-cache-dir",
		"--no-input", "--disable-pip-version-check", "--require-hashes", "--only-binary", ":all:",
		"--requirement", list}
	if t.uv != "" {
		create = []string{t.uv, "venv", "--quiet", "--no-python-downloads", "--python", t.python,
			dir}
		fill = []string{t.uv, "pip", "install", "--quiet", "--no-cache", "--python", python(dir),
			"--require-hashes", "--only-binary", ":all:", "--requirement", list}
	}
	if err := command(ctx, create...); err != nil {
		return err
	}
	if err := os.WriteFile(list, requirements, 0o600); err != nil {
		return err
	}
	if err := command(ctx, fill...); err != nil {
		return err
	}
	return command(ctx, python(dir), "-I", "-c", "import mlx_lm.lora")
}

// command runs a command in a process group of its own, which ends with ctx. The error has the
// last line that it has printed.
func command(ctx context.Context, args ...string) error {
	c := exec.CommandContext(ctx, args[0], args[1:]...)
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = 5 * time.Second
	if err := c.Run(); err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(args[0]), err, lastLine(out.String()))
	}
	return nil
}
