// Package clang compiles kernels on machines without Metal's compiler. Find looks for a compiler,
// WriteSource writes a source and its headers to a folder, Run compiles there, and Cache keeps the
// results under a hash of their inputs. Each device decides what to compile, and with which flags.
package clang

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"time"

	"headroom/metal/msl"
)

// ErrMissing is wrapped by the error of Find if there is no compiler.
var ErrMissing = errors.New("no compiler for Metal kernels")

// compilers are tried in this order. Versions before 19 lack bfloat on x86.
var compilers = []string{"clang-22", "clang-21", "clang-20", "clang-19", "clang"}

const oldest = 19

// Find returns the path and version line of the first compiler that is recent enough.
func Find() (path, version string, err error) {
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
		if _, err := fmt.Sscanf(number, "%d", &major); err == nil && major >= oldest {
			return p, line, nil
		}
	}
	return "", "", fmt.Errorf("%w: clang %d or later is missing (build/setup sim installs it)",
		ErrMissing, oldest)
}

// appleHeaders are the headers that sources include in angle brackets. They are empty files here:
// the shim is always included.
var appleHeaders = []string{
	"metal_stdlib", "metal_types", "metal_math", "metal_common", "metal_integer", "metal_atomic",
	"metal_simdgroup", "metal_simdgroup_matrix",
}

// Folder is a folder of embedded files.
type Folder struct {
	Files embed.FS
	Path  string
}

// SourceFile is the file name of a source.
const SourceFile = "kernels.clcpp"

// WriteSource writes text to SourceFile in dir. Beside it go the files of folders, the shim's
// headers and an empty file for each of Apple's headers.
func WriteSource(dir, text string, folders ...Folder) error {
	err := os.WriteFile(filepath.Join(dir, SourceFile), []byte(text), 0o600)
	for _, h := range appleHeaders {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, h), nil, 0o600))
	}
	for _, f := range append(folders, Folder{msl.Headers, "shim"}) {
		err = errors.Join(err, Copy(dir, f))
	}
	return err
}

// Copy copies a folder's files to dir.
func Copy(dir string, f Folder) error {
	entries, err := f.Files.ReadDir(f.Path)
	for _, e := range entries {
		text, readErr := f.Files.ReadFile(path.Join(f.Path, e.Name()))
		err = errors.Join(err, readErr, os.WriteFile(filepath.Join(dir, e.Name()), text, 0o600))
	}
	return err
}

// Include returns the compiler arguments that include headers of dir before the source, in order.
func Include(dir string, headers []string) []string {
	arguments := []string{"-I", dir}
	for _, h := range headers {
		arguments = append(arguments, "-include", h)
	}
	return arguments
}

// CompileError is a compiler's error about a source. The cache keeps it like a compiled file, since
// compiling again would give the same error.
type CompileError struct{ Text string }

func (e *CompileError) Error() string { return e.Text }

const (
	maxRun     = 5 * time.Minute // a compiler that takes longer has hung
	maxMessage = 6000            // bytes of a compiler's message
)

// Run runs a compiler in dir and returns its standard output. If the compiler rejects its input,
// the error is a CompileError with the compiler's message, in which paths are relative to dir.
func Run(dir, tool string, arguments ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), maxRun)
	defer cancel()
	command := exec.CommandContext(ctx, tool, arguments...)
	command.Dir = dir
	var out, stderr bytes.Buffer
	command.Stdout, command.Stderr = &out, &stderr
	err := command.Run()
	if err == nil {
		return out.Bytes(), nil
	}
	text, name := strings.ReplaceAll(stderr.String(), dir+"/", ""), filepath.Base(tool)
	if len(text) > maxMessage {
		text = text[:maxMessage] + "\n..."
	}
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == 1 {
		return nil, &CompileError{name + " rejects the source:\n" + text}
	}
	return nil, fmt.Errorf("%s: %w\n%s", name, err, text)
}
