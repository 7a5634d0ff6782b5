package check

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"sort"
	"strconv"
	"strings"
)

// module is the path of go.mod; imports below it are the repository's own.
const module = "headroom"

// goFile has the facts about a Go file that the rules use.
type goFile struct {
	path    string   // from the root, with slashes: "engine/nn/linear.go"
	pkg     string   // its folder: "engine/nn"; "." is the root
	test    bool     // *_test.go
	outside bool     // an external test: package nn_test
	imports []string // import paths as written, "C" included
	doc     string   // text of the package comment, without directives
}

// skipped reports whether a folder has no source of this project: git ignores it, the go command
// ignores it (testdata, a leading dot or underscore), or it has dependencies.
func skipped(dir string) bool {
	name := path.Base(dir)
	return dir == "bin" || dir == "frontend/dist" || name == "node_modules" || name == "testdata" ||
		name != "." && strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")
}

// readGo parses the imports and package comments of every Go file of the tree, whatever its build
// tags and system. It skips nested modules, like the go command.
func readGo(tree fs.FS) ([]goFile, error) {
	var files []goFile
	err := fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if skipped(name) {
				return fs.SkipDir
			}
			if _, err := fs.Stat(tree, path.Join(name, "go.mod")); err == nil && name != "." {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasPrefix(path.Base(name), "_") ||
			strings.HasPrefix(path.Base(name), ".") {
			return nil
		}
		text, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, text,
			parser.ImportsOnly|parser.ParseComments)
		if err != nil {
			return err
		}
		files = append(files, describe(name, file))
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the tree's Go files: %w", err)
	}
	return files, nil
}

func describe(name string, file *ast.File) goFile {
	f := goFile{path: name, pkg: path.Dir(name), test: strings.HasSuffix(name, "_test.go"),
		doc: file.Doc.Text()}
	f.outside = f.test && strings.HasSuffix(file.Name.Name, "_test")
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			imported = spec.Path.Value
		}
		f.imports = append(f.imports, imported)
	}
	return f
}

// within returns the folder of a package of this module, and false for any other import.
func within(imported string) (string, bool) {
	if imported == module {
		return ".", true
	}
	return strings.CutPrefix(imported, module+"/")
}

// helper reports whether a package has test helpers (kernels/kerneltest), which only tests import.
func helper(pkg string) bool { return pkg != "." && strings.HasSuffix(path.Base(pkg), "test") }

// matches reports whether a folder matches a pattern: its path, or "kernels/*" for any one folder
// in kernels, or "kernels/..." for kernels and everything in it.
func matches(pattern, pkg string) bool {
	if parent, ok := strings.CutSuffix(pattern, "/..."); ok {
		return pkg == parent || strings.HasPrefix(pkg, parent+"/")
	}
	if parent, ok := strings.CutSuffix(pattern, "/*"); ok {
		return path.Dir(pkg) == parent
	}
	return pattern == pkg
}

// lines counts the lines of a text, including a last line without a newline.
func lines(text []byte) int {
	n := bytes.Count(text, []byte("\n"))
	if len(text) > 0 && text[len(text)-1] != '\n' {
		n++
	}
	return n
}

func sorted(breaches []string) []string {
	sort.Strings(breaches)
	return breaches
}
