package check

import (
	"bytes"
	"fmt"
	"go/format"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// checkDocs requires exactly one package comment for each package. A comment that an empty line
// separates from the package clause belongs to its file and does not count. A package that has only
// tests needs no comment.
func checkDocs(files []goFile) []string {
	documented := map[string][]string{}
	for _, f := range files {
		if f.test {
			continue
		}
		if documented[f.pkg] == nil {
			documented[f.pkg] = []string{}
		}
		if f.doc != "" {
			documented[f.pkg] = append(documented[f.pkg], f.path)
		}
	}
	var breaches []string
	for pkg, docs := range documented {
		switch {
		case len(docs) == 0:
			breaches = append(breaches, fmt.Sprintf("%s: no package comment. Write what the "+
				"package is for, right above a package clause.", pkg))
		case len(docs) > 1:
			breaches = append(breaches, fmt.Sprintf("%s: %d package comments (%s). Keep one, and "+
				"separate the others from the package clause by an empty line.",
				pkg, len(docs), strings.Join(docs, ", ")))
		}
	}
	return sorted(breaches)
}

// listsFiles matches a line of the list of files in a package comment, and listedFile its names.
var (
	listsFiles = regexp.MustCompile(`(?m)^\t[a-z0-9_*]+\.go[ ,].*`)
	listedFile = regexp.MustCompile(`[a-z0-9_*]+\.go\b`)
)

// checkFileLists compares the list of files in a package comment, where there is one, with the
// package's files: the list names each of them, and no other. It need not name tests, nor the file
// that it is in.
func checkFileLists(files []goFile) []string {
	names := map[string][]string{} // by package
	for _, f := range files {
		names[f.pkg] = append(names[f.pkg], path.Base(f.path))
	}
	var breaches []string
	for _, f := range files {
		list := strings.Join(listsFiles.FindAllString(f.doc, -1), "\n")
		if f.test || list == "" {
			continue
		}
		listed := listedFile.FindAllString(list, -1)
		for _, name := range names[f.pkg] {
			fits := func(pattern string) bool { ok, _ := path.Match(pattern, name); return ok }
			if name != path.Base(f.path) && !strings.HasSuffix(name, "_test.go") &&
				!slices.ContainsFunc(listed, fits) {
				breaches = append(breaches, fmt.Sprintf("%s: the list of files lacks %s. Write "+
					"what it has.", f.path, name))
			}
		}
		for _, pattern := range listed {
			fits := func(name string) bool { ok, _ := path.Match(pattern, name); return ok }
			if !slices.ContainsFunc(names[f.pkg], fits) {
				breaches = append(breaches, fmt.Sprintf("%s: there is no %s. Correct the list of "+
					"files.", f.path, pattern))
			}
		}
	}
	return sorted(breaches)
}

// forbidden restricts an import to the few packages that may have it.
type forbidden struct {
	imports []string // import paths, each with everything below it
	allowed []string // import paths below imports that the rule does not cover
	in      []string // patterns of the packages that the rule covers
	except  []string // patterns of the packages that may import it
	why     string
}

// covers reports whether the rule is about this import path.
func (r *forbidden) covers(imported string) bool {
	below := func(parent string) bool {
		return imported == parent || strings.HasPrefix(imported, parent+"/")
	}
	return slices.ContainsFunc(r.imports, below) && !slices.ContainsFunc(r.allowed, below)
}

// checkImports checks every import outside of tests against the rules.
func checkImports(files []goFile, rules []forbidden) []string {
	var breaches []string
	for _, f := range files {
		if f.test || helper(f.pkg) {
			continue
		}
		fits := func(pattern string) bool { return matches(pattern, f.pkg) }
		for _, rule := range rules {
			if !slices.ContainsFunc(rule.in, fits) || slices.ContainsFunc(rule.except, fits) {
				continue
			}
			for _, imported := range f.imports {
				if rule.covers(imported) {
					breaches = append(breaches,
						fmt.Sprintf("%s imports %s. %s", f.path, imported, rule.why))
				}
			}
		}
	}
	return sorted(breaches)
}

// sourceFile matches files that people write and read. Their length is limited.
var sourceFile = regexp.MustCompile(`\.(go|c|h|m|metal|ts|js|mjs|svelte|css|py|sh)$`)

// generated matches Go's comment for generated files, in a comment of any language.
var generated = regexp.MustCompile(`(?m)^\W*Code generated .* DO NOT EDIT\.`)

// checkLengths finds source files of more than limit lines. It skips generated files.
func checkLengths(tree fs.FS, limit int) []string {
	return eachText(tree, sourceFile, func(name string, text []byte) []string {
		if n := lines(text); n > limit && !generated.Match(text) {
			return []string{fmt.Sprintf("%s: %d lines, at most %d. Move one of its topics to "+
				"another file.", name, n, limit)}
		}
		return nil
	})
}

var goSource = regexp.MustCompile(`\.go$`)

// checkFormat finds Go files that gofmt would change.
func checkFormat(tree fs.FS) []string {
	return eachText(tree, goSource, func(name string, text []byte) []string {
		formatted, err := format.Source(text)
		if err != nil {
			return []string{fmt.Sprintf("%s: does not parse: %v", name, err)}
		}
		if !bytes.Equal(formatted, text) {
			return []string{fmt.Sprintf("%s: not formatted. Run: gofmt -w %s", name, name)}
		}
		return nil
	})
}

// unwelcome is a text that no file may contain.
type unwelcome struct {
	text *regexp.Regexp
	why  string
}

// checkTexts looks for the texts of the rules in every file that is not binary, including testdata.
func checkTexts(tree fs.FS, rules []unwelcome) []string {
	any := regexp.MustCompile(``)
	return eachText(tree, any, func(name string, text []byte) []string {
		if bytes.IndexByte(text[:min(len(text), 8000)], 0) >= 0 {
			return nil
		}
		var breaches []string
		for _, rule := range rules {
			if at := rule.text.FindIndex(text); at != nil {
				line := 1 + bytes.Count(text[:at[0]], []byte("\n"))
				breaches = append(breaches,
					fmt.Sprintf("%s:%d: %q. %s", name, line, text[at[0]:at[1]], rule.why))
			}
		}
		return breaches
	})
}

// largestTextBytes is the maximum size of a text file. Larger files count as data.
const largestTextBytes = 8 << 20

// eachText calls check for every file whose path matches fits, and joins the results. It skips the
// folders for which skipped returns true, except .ci, and except testdata if fits is no pattern of
// sources. A file that cannot be read is a breach.
func eachText(
	tree fs.FS, fits *regexp.Regexp, check func(name string, text []byte) []string,
) []string {
	var breaches []string
	err := fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if skipped(name) && path.Base(name) != "testdata" && name != ".ci" || name == ".git" {
				return fs.SkipDir
			}
			if path.Base(name) == "testdata" && (fits == sourceFile || fits == goSource ||
				fits == columnFile) {
				return fs.SkipDir
			}
			return nil
		}
		// In a linked worktree .git is a file with an absolute path.
		if !entry.Type().IsRegular() || name == ".git" || !fits.MatchString(name) {
			return nil
		}
		if info, err := entry.Info(); err != nil || info.Size() > largestTextBytes {
			return err
		}
		text, err := fs.ReadFile(tree, name)
		if err == nil {
			breaches = append(breaches, check(name, text)...)
		}
		return err
	})
	if err != nil {
		breaches = append(breaches, fmt.Sprintf("reading the tree: %v", err))
	}
	return sorted(breaches)
}
