// Crosscheck type-checks packages and all their dependencies for another system, on any system.
//
//	go run ./build/crosscheck [-os OS] [-arch ARCH] [-cgo=false] [-tags LIST] PACKAGE...
//
// Window and tray link Cocoa and WebKit, so no other system can compile them for a Mac, but their
// Go code can be type-checked. A check also takes a tenth of the time of a cross build, most of
// which compiles dependencies. `go list -deps` names the files that the other system would compile,
// dependencies first. go/types checks them in that order with FakeImportC, which accepts every
// C.name with any type. Calls into C and Objective-C files are not checked. In the standard
// library, only declarations are checked.
//
// It prints one line per error. It exits 1 if there is an error, and 2 if go list fails.
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
	var on target
	flag.StringVar(&on.os, "os", "darwin", "GOOS of the other system")
	flag.StringVar(&on.arch, "arch", "arm64", "GOARCH of the other system")
	flag.BoolVar(&on.cgo, "cgo", true, "check the files that need cgo, too")
	flag.StringVar(&on.tags, "tags", "", "build tags, comma separated")
	flag.Parse()
	if flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr,
			"usage: crosscheck [-os OS] [-arch ARCH] [-cgo=false] [-tags LIST] PACKAGE...")
		os.Exit(2)
	}
	packages, err := on.list(".", flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "crosscheck:", err)
		os.Exit(2)
	}
	problems, unchecked := on.check(packages)
	for _, problem := range problems {
		fmt.Println(problem)
	}
	fmt.Printf("crosscheck: %d packages for %s/%s, %d errors\n", len(packages), on.os, on.arch,
		len(problems))
	if len(unchecked) > 0 {
		fmt.Println("crosscheck: Objective-C is not checked:", strings.Join(unchecked, ", "))
	}
	if len(problems) > 0 {
		os.Exit(1)
	}
}

// target is a system and how packages are compiled for it.
type target struct {
	os, arch string
	cgo      bool
	tags     string
}

// listed is a package in the output of `go list -json`, with its field names.
type listed struct {
	ImportPath string
	Dir        string
	Standard   bool
	GoFiles    []string
	CgoFiles   []string
	MFiles     []string
	// ImportMap maps import paths in the source to resolved ones (vendoring, standard library).
	ImportMap map[string]string
	Module    *struct{ GoVersion string }
	Error     *struct{ Err string }
}

// list returns the packages and all their dependencies, with the files that the target would
// compile. Dependencies come first.
func (on target) list(dir string, patterns []string) ([]listed, error) {
	command := exec.Command("go",
		append([]string{"list", "-e", "-deps", "-json", "-tags", on.tags}, patterns...)...)
	command.Dir = dir
	command.Env = append(os.Environ(), "GOOS="+on.os, "GOARCH="+on.arch, "CGO_ENABLED=0")
	if on.cgo {
		command.Env = append(command.Env, "CGO_ENABLED=1")
	}
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
			return nil, fmt.Errorf("parse the output of go list: %w", err)
		}
		packages = append(packages, p)
	}
}

// check type-checks the packages in the given order. It returns the errors, and the packages with
// Objective-C files, which it does not check.
func (on target) check(packages []listed) (problems, unchecked []string) {
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
			unchecked = append(unchecked, p.ImportPath)
		}
		var found []string
		checked[p.ImportPath], found = on.checkOne(p, files, checked)
		problems = append(problems, found...)
	}
	return problems, unchecked
}

func (on target) checkOne(p listed, files *token.FileSet,
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
		Sizes:            types.SizesFor("gc", on.arch),
		Error: func(err error) {
			// Soft errors, such as unused imports, follow from unresolved C names. Errors in the
			// standard library are ignored: its cgo files need declarations that cgo generates.
			if soft := (types.Error{}); p.Standard ||
				on.cgo && errors.As(err, &soft) && soft.Soft {
				return
			}
			problems = append(problems, err.Error())
		},
	}
	if p.Module != nil && p.Module.GoVersion != "" {
		config.GoVersion = "go" + p.Module.GoVersion
	}
	result, _ := config.Check(p.ImportPath, files, sources, nil) // Error has received all errors
	return result, problems
}

// importer imports packages that were checked before.
type importer struct {
	checked map[string]*types.Package
	renamed map[string]string // see listed.ImportMap
}

func (i importer) Import(name string) (*types.Package, error) {
	if resolved, ok := i.renamed[name]; ok {
		name = resolved
	}
	if p := i.checked[name]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("%s was not listed before its importer", name)
}
