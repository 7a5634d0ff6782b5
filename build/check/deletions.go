package check

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
)

// deletion matches calls that remove or overwrite a file or its content.
var deletion = regexp.MustCompile(
	`\b(?:os|root|unix|syscall)\.(?:Remove|RemoveAll|Rename|Renameat2|RenamexNp|Truncate|Unlink|` +
		`Unlinkat|Rmdir|Create|WriteFile)\(|(?:\.disk|\bfiles|\.files\(\))\.(?:Remove|Rename)\(|` +
		`O_TRUNC|\.Truncate\(0\)|seal\.DestroyFile\(`)

// deletes says why the calls in a file cannot harm the files of others: the tests that show it, in
// the same folder, or a reason.
type deletes struct {
	calls  int
	tests  []string // "TestA"
	reason string   // for temporary folders and files that the user names
}

// proveDeletion says what to do about a new deletion.
const proveDeletion = "Prove that each removes only files that Headroom certainly created, " +
	"whatever else is in the folder: by name and content, without following links. Write a test " +
	"with foreign files beside ours, and add it to deletions in build/check."

// checkDeletions requires that every Go file with a deletion is in the table, with as many calls,
// and that the tests exist. It skips tests and the packages in tools.
func checkDeletions(tree fs.FS, known map[string]deletes, tools func(pkg string) bool) []string {
	found := map[string]int{}
	breaches := eachText(tree, goSource, func(name string, text []byte) []string {
		if strings.HasSuffix(name, "_test.go") || tools(path.Dir(name)) {
			return nil
		}
		for line := range strings.Lines(string(text)) {
			code, _, _ := strings.Cut(line, "//")
			found[name] += len(deletion.FindAllString(code, -1))
		}
		if found[name] > known[name].calls {
			return []string{fmt.Sprintf("%s: %d calls remove or overwrite files, expected %d. %s",
				name, found[name], known[name].calls, proveDeletion)}
		}
		return nil
	})
	for name, d := range known {
		if found[name] < d.calls {
			breaches = append(breaches, fmt.Sprintf("%s: %d calls remove or overwrite files, but "+
				"deletions in build/check expects %d. Correct the table.", name, found[name],
				d.calls))
		}
		if len(d.tests) == 0 && d.reason == "" {
			breaches = append(breaches, name+": deletions has neither a test nor a reason")
		}
		for _, test := range d.tests {
			if !hasTest(tree, path.Dir(name), test) {
				breaches = append(breaches,
					fmt.Sprintf("%s: deletions names %s, but its folder has no such test", name,
						test))
			}
		}
	}
	return sorted(breaches)
}

// hasTest reports whether a folder has a test with this name.
func hasTest(tree fs.FS, dir, name string) bool {
	pattern := regexp.MustCompile(`(?m)^func ` + regexp.QuoteMeta(name) + `\(`)
	files, _ := fs.Glob(tree, path.Join(dir, "*_test.go"))
	for _, f := range files {
		if text, err := fs.ReadFile(tree, f); err == nil && pattern.Match(text) {
			return true
		}
	}
	return false
}
