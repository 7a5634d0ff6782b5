package check

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
)

// trailHop matches a line of a trail in a package comment: a function, its folder, and what it
// does.
var trailHop = regexp.MustCompile(`(?m)^//\t([a-z0-9]+)\.([A-Za-z0-9_.]+)[ \t]+([a-z0-9/]+)[ \t]`)

// checkTrail looks up every function in the trails of a Go file's comment. It requires at least
// one trail.
func checkTrail(tree fs.FS, file string) []string {
	text, err := fs.ReadFile(tree, file)
	if err != nil {
		return []string{err.Error()}
	}
	hops := trailHop.FindAllStringSubmatch(string(text), -1)
	if len(hops) == 0 {
		return []string{file + ": there is no trail"}
	}
	var breaches []string
	for _, hop := range hops {
		pkg, name, folder := hop[1], hop[2], hop[3]
		if path.Base(folder) != pkg || !declares(tree, folder, name) {
			breaches = append(breaches,
				fmt.Sprintf("%s: %s has no function %s.%s. Correct the trail.", file, folder, pkg,
					name))
		}
	}
	return breaches
}

// declares reports whether a folder's Go files, tests aside, declare a function "F" or a method
// "T.M".
func declares(tree fs.FS, folder, name string) bool {
	declaration := `(?m)^func ` + name + `[(\[]`
	if receiver, method, ok := strings.Cut(name, "."); ok {
		declaration = `(?m)^func \(\w+ \*?` + receiver + `\) ` + method + `[(\[]`
	}
	pattern := regexp.MustCompile(declaration)
	files, _ := fs.Glob(tree, path.Join(folder, "*.go"))
	for _, f := range files {
		text, err := fs.ReadFile(tree, f)
		if err == nil && !strings.HasSuffix(f, "_test.go") && pattern.Match(text) {
			return true
		}
	}
	return false
}
