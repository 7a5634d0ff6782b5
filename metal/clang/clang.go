// Package clang compiles the text of kernels where Metal's compiler is not. Find looks for a
// compiler, Lay puts a source and what it includes into a folder, Run compiles there, and a Cache
// keeps what came of it by a hash of everything that went in. What is compiled, and with which
// flags, is the devices' own.
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

// ErrMissing is wrapped where there is no compiler.
var ErrMissing = errors.New("no compiler for kernels")

// compilers are tried in this order. Versions before 19 lack bfloat on x86.
var compilers = []string{"clang-22", "clang-21", "clang-20", "clang-19", "clang"}

const oldest = 19

// Find returns the path of the first compiler that is new enough, and what it says of its version.
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

// appleHeaders are what sources include in angle brackets; their contents are always there.
var appleHeaders = []string{
	"metal_stdlib", "metal_types", "metal_math", "metal_common", "metal_integer", "metal_atomic",
	"metal_simdgroup", "metal_simdgroup_matrix",
}

// Folder is files of a program to lay beside a source.
type Folder struct {
	Files embed.FS
	Path  string
}

// SourceFile is the name that Lay gives a source.
const SourceFile = "kernels.clcpp"

// Lay puts text into dir as SourceFile, with Apple's headers, the shim's and those of folders.
func Lay(dir, text string, folders ...Folder) error {
	err := os.WriteFile(filepath.Join(dir, SourceFile), []byte(text), 0o600)
	for _, h := range appleHeaders {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, h), nil, 0o600))
	}
	for _, f := range append(folders, Folder{msl.Headers, "shim"}) {
		err = errors.Join(err, Copy(dir, f))
	}
	return err
}

// Copy puts a folder's files into dir.
func Copy(dir string, f Folder) error {
	entries, err := f.Files.ReadDir(f.Path)
	for _, e := range entries {
		text, readErr := f.Files.ReadFile(path.Join(f.Path, e.Name()))
		err = errors.Join(err, readErr, os.WriteFile(filepath.Join(dir, e.Name()), text, 0o600))
	}
	return err
}

// Include are arguments that have headers included before the source, in this order, from dir.
func Include(dir string, headers []string) []string {
	arguments := []string{"-I", dir}
	for _, h := range headers {
		arguments = append(arguments, "-include", h)
	}
	return arguments
}

// Refusal is what a compiler has against a source: as final as a library, and kept like one.
type Refusal struct{ Text string }

func (r *Refusal) Error() string { return r.Text }

const (
	longestRun  = 5 * time.Minute // generous: a compiler that takes longer hangs
	longestText = 6000            // bytes of a compiler's words
)

// Run runs a compiler in dir, and returns what it wrote. When it refuses its input the error is a
// Refusal with its words, in which dir is not named.
func Run(dir, tool string, arguments ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), longestRun)
	defer cancel()
	command := exec.CommandContext(ctx, tool, arguments...)
	command.Dir = dir
	var out, said bytes.Buffer
	command.Stdout, command.Stderr = &out, &said
	err := command.Run()
	if err == nil {
		return out.Bytes(), nil
	}
	text, name := strings.ReplaceAll(said.String(), dir+"/", ""), filepath.Base(tool)
	if len(text) > longestText {
		text = text[:longestText] + "\n..."
	}
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == 1 {
		return nil, &Refusal{name + " refuses it:\n" + text}
	}
	return nil, fmt.Errorf("%s: %w\n%s", name, err, text)
}
