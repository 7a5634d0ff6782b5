//go:build linux && amd64

package sim

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"time"

	"headroom/metal/msl"
)

//go:embed include/*.h runtime/*.c runtime/*.h
var sources embed.FS

// compilers are tried in this order. Versions before 19 lack bfloat on x86.
var compilers = []string{"clang-22", "clang-21", "clang-20", "clang-19", "clang"}

const oldestClang = 19

// kernelFlags compile a library: Metal's "safe" math, so no contraction of a*b+c where the source does not say fma, and no
// reassociation; constants of floating point are float; what Metal has no headers or types for does not exist.
var kernelFlags = []string{
	"-x", "clcpp", "-cl-std=clc++2021", "-cl-no-stdinc", "-nostdinc", "-cl-single-precision-constant",
	"-Xclang", "-cl-ext=+cl_khr_fp16,-cl_khr_fp64,-__opencl_c_fp64", "-target", "x86_64-unknown-linux-gnu", "-march=x86-64-v3", "-fPIC",
	"-ffp-contract=off", "-Wall", "-Werror", "-Wno-unused-function", "-Wno-unused-const-variable", "-Wno-unused-variable", "-ferror-limit=20",
	"-fno-color-diagnostics", "-fshow-overloads=best", "-fdebug-compilation-dir=" + sourceRoot,
}

// sourceRoot stands before names of files in debug information.
const sourceRoot = "/source"

var modeFlags = map[bool][]string{
	false: {"-O2", "-gline-tables-only", "-gdwarf-4"},
	true: {"-O1", "-gline-tables-only", "-gdwarf-4", "-fsanitize=thread", "-fno-vectorize", "-fno-slp-vectorize",
		"-mllvm", "-tsan-instrument-func-entry-exit=0"},
}

// headers are included before every source, in this order.
var headers = []string{"msl_types.h", "msl_threads.h", "msl_math.h", "msl_matrix.h", "msl_entry.h"}

// appleHeaders are what sources include in angle brackets; their contents are always there.
var appleHeaders = []string{
	"metal_stdlib", "metal_types", "metal_math", "metal_common", "metal_integer", "metal_atomic", "metal_simdgroup", "metal_simdgroup_matrix",
}

// compiler turns programs into libraries, and keeps them.
type compiler struct {
	clang   string
	version string
	check   bool
	dir     string
	seed    string // of every hash: compiler, flags, headers, runtime
}

func newCompiler(o Options) (*compiler, error) {
	clang, version, err := findClang()
	if err != nil {
		return nil, err
	}
	c := &compiler{clang: clang, version: version, check: o.Check, dir: o.CacheDir}
	if c.dir == "" {
		base, err := os.UserCacheDir()
		if err != nil { // no home: the system's temporary folder, in a folder of this user's own
			base = filepath.Join(os.TempDir(), fmt.Sprintf("cache-%d", os.Getuid()))
		}
		c.dir = filepath.Join(base, "headroom", "metal-sim")
	}
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return nil, fmt.Errorf("the cache of compiled kernels: %w", err)
	}
	h := sha256.New()
	fmt.Fprintln(h, version, kernelFlags, modeFlags[c.check], headers, appleHeaders)
	for _, tree := range []embed.FS{sources, msl.Headers} {
		err = errors.Join(err, fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			text, err := tree.ReadFile(name)
			fmt.Fprintf(h, "%s %d\n%s", name, len(text), text)
			return err
		}))
	}
	c.seed = string(h.Sum(nil))
	return c, err
}

// findClang looks for a compiler that is new enough.
func findClang() (clang, version string, err error) {
	for _, name := range compilers {
		p, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		out, err := exec.Command(p, "--version").Output()
		if err != nil {
			continue
		}
		line, _, _ := strings.Cut(string(out), "\n")
		_, number, _ := strings.Cut(line, "clang version ")
		major := 0
		if _, err := fmt.Sscanf(number, "%d", &major); err == nil && major >= oldestClang {
			return p, line, nil
		}
	}
	return "", "", fmt.Errorf("%w: clang %d or later is missing (build/setup sim installs it)", ErrUnavailable, oldestClang)
}

// refusal is what clang or lint has against a source: as final as a library, and kept like one.
type refusal struct{ text string }

func (r *refusal) Error() string { return r.text }

// cached is the path of a compiled thing with that name and contents, made by build if it is not there yet. Several processes may
// build the same at once: each renames a whole file into place.
func (c *compiler) cached(name string, contents string, build func(dir, out string) error) (string, error) {
	sum := sha256.Sum256([]byte(c.seed + contents))
	file := filepath.Join(c.dir, fmt.Sprintf("%s-%x.so", strings.TrimSuffix(path.Base(name), ".metal"), sum[:10]))
	if info, err := os.Stat(file); err == nil {
		if now := time.Now(); now.Sub(info.ModTime()) > 24*time.Hour {
			_ = os.Chtimes(file, now, now) // in use: sweep must not take it. If it does, it is built again
		}
		return file, nil
	}
	if text, err := os.ReadFile(file + ".refused"); err == nil {
		return "", &refusal{string(text)}
	}
	c.sweep(time.Now())
	dir, err := os.MkdirTemp(c.dir, "build-")
	if err != nil {
		return "", fmt.Errorf("the cache of compiled kernels: %w", err)
	}
	defer os.RemoveAll(dir)
	out := filepath.Join(dir, filepath.Base(file))
	err = build(dir, out)
	if no := (*refusal)(nil); errors.As(err, &no) {
		file, err = file+".refused", os.WriteFile(out, []byte(no.text), 0o600)
		if err = errors.Join(err, os.Rename(out, file)); err != nil {
			return "", fmt.Errorf("the cache of compiled kernels: %w", err)
		}
		return "", no
	}
	if err != nil {
		return "", err
	}
	return file, os.Rename(out, file)
}

// unusedFor is how long a compiled thing is kept that nobody asks for.
const unusedFor = 30 * 24 * time.Hour

// sweep removes what has not been used for long. What it cannot remove stays: another process may be at it.
func (c *compiler) sweep(now time.Time) {
	entries, _ := os.ReadDir(c.dir)
	for _, e := range entries {
		if info, err := e.Info(); err == nil && now.Sub(info.ModTime()) > unusedFor {
			_ = os.RemoveAll(filepath.Join(c.dir, e.Name()))
		}
	}
}

// runtime compiles the runtime, and returns its path.
func (c *compiler) runtime() (string, error) {
	return c.cached("runtime", "", func(dir, out string) error {
		if err := copyFiles(dir, sources, "runtime"); err != nil {
			return err
		}
		return c.run(dir, "-O2", "-fPIC", "-shared", "-Wl,-soname,"+filepath.Base(out), "-o", out, "fibers.c", "check.c", "dispatch.c", "-lpthread")
	})
}

// library compiles program, and returns its path.
func (c *compiler) library(name string, program *msl.Program) (string, error) {
	text := program.OpenCL() + entries(program)
	runtime, err := c.runtime()
	if err != nil {
		return "", err
	}
	return c.cached(name, text, func(dir, out string) error {
		err := errors.Join(copyFiles(dir, sources, "include"), copyFiles(dir, msl.Headers, "shim"), copyFiles(dir, sources, "runtime"),
			os.WriteFile(filepath.Join(dir, "kernels.clcpp"), []byte(text), 0o600))
		for _, h := range appleHeaders {
			err = errors.Join(err, os.WriteFile(filepath.Join(dir, h), nil, 0o600))
		}
		if err != nil {
			return err
		}
		arguments := append([]string{"-I", dir}, kernelFlags...)
		for _, h := range headers {
			arguments = append(arguments, "-include", h)
		}
		compile := append(append([]string{}, arguments...), modeFlags[c.check]...)
		if err := c.run(dir, append(compile, "-c", "-o", "kernels.o", "kernels.clcpp")...); err != nil {
			return err
		}
		if err := c.lint(dir, arguments); err != nil {
			return err
		}
		return c.run(dir, "-O2", "-fPIC", "-shared", "-o", out, "kernels.o", "image.c", runtime, "-Wl,--no-undefined", "-lm")
	})
}

// longestCompile is generous: a compiler that takes longer hangs.
const longestCompile = 5 * time.Minute

// run runs clang in dir. The error is what it said.
func (c *compiler) run(dir string, arguments ...string) error {
	_, err := c.output(dir, arguments...)
	return err
}

func (c *compiler) output(dir string, arguments ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), longestCompile)
	defer cancel()
	command := exec.CommandContext(ctx, c.clang, arguments...)
	command.Dir = dir
	var out, said bytes.Buffer
	command.Stdout, command.Stderr = &out, &said
	if err := command.Run(); err != nil {
		text := strings.ReplaceAll(said.String(), dir+"/", "")
		if len(text) > 6000 {
			text = text[:6000] + "\n..."
		}
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == 1 {
			return nil, &refusal{"clang refuses it:\n" + text}
		}
		return nil, fmt.Errorf("clang: %w\n%s", err, text)
	}
	return out.Bytes(), nil
}

func copyFiles(dir string, from embed.FS, folder string) error {
	entries, err := from.ReadDir(folder)
	for _, e := range entries {
		text, readErr := from.ReadFile(path.Join(folder, e.Name()))
		err = errors.Join(err, readErr, os.WriteFile(filepath.Join(dir, e.Name()), text, 0o600))
	}
	return err
}
