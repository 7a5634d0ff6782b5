// Darwincheck type-checks packages and everything they import for macOS, on any system.
//
//	go run ./build/darwincheck [-tags LIST] [-arch ARCH] PACKAGE...
//
// Window and tray link Cocoa and WebKit, so no other system can compile them for a Mac. But their
// Go side can be read: `go list -deps` with GOOS=darwin and cgo on names the files that a Mac would
// compile, dependencies first, and go/types checks them in that order with FakeImportC, which
// accepts every C.name as of any type. Not seen: calls into C, and the Objective-C files
// themselves. The standard library's bodies are not checked; its declarations are all that is
// needed of it.
//
// It prints one line per error and exits 1 if there is one, 2 if it could not look.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

func main() {
	tags := flag.String("tags", "", "build tags, comma separated")
	arch := flag.String("arch", "arm64", "GOARCH of the Mac")
	flag.Parse()
	if flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "usage: darwincheck [-tags LIST] [-arch ARCH] PACKAGE...")
		os.Exit(2)
	}
	packages, err := list(".", *tags, *arch, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "darwincheck:", err)
		os.Exit(2)
	}
	problems, unseen := check(packages, *arch)
	for _, problem := range problems {
		fmt.Println(problem)
	}
	fmt.Printf("darwincheck: %d packages for darwin/%s, %d errors; Objective-C of %s not seen\n",
		len(packages), *arch, len(problems), strings.Join(unseen, ", "))
	if len(problems) > 0 {
		os.Exit(1)
	}
}

// listed is what `go list -json` says of a package; the names are its own.
type listed struct {
	ImportPath string
	Dir        string
	Standard   bool
	GoFiles    []string
	CgoFiles   []string
	MFiles     []string
	// import path in the source to the one meant (vendoring, standard library)
	ImportMap map[string]string
	Module    *struct{ GoVersion string }
	Error     *struct{ Err string }
}

// list returns the packages and all their dependencies, each after what it imports, with the files
// that a Mac would compile.
func list(dir, tags, arch string, patterns []string) ([]listed, error) {
	command := exec.Command("go",
		append([]string{"list", "-e", "-deps", "-json", "-tags", tags}, patterns...)...)
	command.Dir = dir
	command.Env = append(os.Environ(), "GOOS=darwin", "GOARCH="+arch, "CGO_ENABLED=1")
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, stderr.String())
	}
	var packages []listed
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, fmt.Errorf("go list's answer: %w", err)
		}
		packages = append(packages, p)
	}
}

// check type-checks the packages in the order given. It returns the errors, and the packages whose
// Objective-C it could not look at.
func check(packages []listed, arch string) (problems, unseen []string) {
	files := token.NewFileSet()
	checked := map[string]*types.Package{"unsafe": types.Unsafe}
	for _, p := range packages {
		if p.ImportPath == "unsafe" {
			continue
		}
		if p.Error != nil {
			problems = append(problems, fmt.Sprintf("%s: %s", p.ImportPath, p.Error.Err))
			continue
		}
		if len(p.MFiles) > 0 {
			unseen = append(unseen, p.ImportPath)
		}
		var found []string
		checked[p.ImportPath], found = checkOne(p, arch, files, checked)
		problems = append(problems, found...)
	}
	return problems, unseen
}

func checkOne(p listed, arch string, files *token.FileSet,
	checked map[string]*types.Package) (*types.Package, []string) {
	var problems []string
	var sources []*ast.File
	for _, name := range append(p.GoFiles, p.CgoFiles...) {
		source, err := parser.ParseFile(files, filepath.Join(p.Dir, name), nil,
			parser.SkipObjectResolution)
		if err != nil {
			problems = append(problems, err.Error())
		}
		sources = append(sources, source)
	}
	config := types.Config{
		FakeImportC:      true,
		IgnoreFuncBodies: p.Standard,
		Importer:         importer{checked, p.ImportMap},
		Sizes:            types.SizesFor("gc", arch),
		Error: func(err error) {
			// Soft errors (an unused import) follow from C names that were not resolved. The
			// standard library is taken as right: its cgo files need what only cgo writes.
			if soft := (types.Error{}); p.Standard || errors.As(err, &soft) && soft.Soft {
				return
			}
			problems = append(problems, err.Error())
		},
	}
	if p.Module != nil && p.Module.GoVersion != "" {
		config.GoVersion = "go" + p.Module.GoVersion
	}
	result, _ := config.Check(p.ImportPath, files, sources, nil) // every error went through Error
	return result, problems
}

// importer answers from the packages checked before.
type importer struct {
	checked map[string]*types.Package
	renamed map[string]string
}

func (i importer) Import(name string) (*types.Package, error) {
	if meant, ok := i.renamed[name]; ok {
		name = meant
	}
	if p := i.checked[name]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("%s was not listed before its importer", name)
}
