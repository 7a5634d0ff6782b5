package check

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
)

// Rules for documents: every Makefile target has a line of help, and every command in README and
// CONTRIBUTING exists.

var (
	target      = regexp.MustCompile(`(?m)^([a-z][a-z0-9-]*):(.*)$`)
	phony       = regexp.MustCompile(`(?m)^\.PHONY:(.*)$`)
	codeSpan    = regexp.MustCompile("`([^`\n]+)`")
	fence       = regexp.MustCompile("(?ms)^```[a-z]*\n(.*?)^```")
	makeCommand = regexp.MustCompile(`^make((?: +[A-Za-z0-9_=.-]+)*)$`)
	ownCommand  = regexp.MustCompile(`^(?:\./)?(?:bin/)?headroom +([a-z][a-z-]*)`)
	commandTag  = regexp.MustCompile(
		"(?m)^\\s*([A-Z][A-Za-z0-9]*)\\s+[^`\n]*`[^`\n]*\\bcmd:\"[^`\n]*`")
	nameTag = regexp.MustCompile(`\bname:"([^"]+)"`)
)

// makeTargets returns the targets of a Makefile that people run, each with its line of help, ""
// without one. Targets that are files, such as bin/headroom, are not among them.
func makeTargets(makefile string) map[string]string {
	targets := map[string]string{}
	for _, m := range target.FindAllStringSubmatch(makefile, -1) {
		_, help, _ := strings.Cut(m[2], "## ")
		targets[m[1]] = strings.TrimSpace(help)
	}
	return targets
}

// checkMakefile requires a line of help for every target, and that every target is phony: otherwise
// make would skip it if a file with its name exists.
func checkMakefile(makefile string) []string {
	declared := map[string]bool{}
	for _, m := range phony.FindAllStringSubmatch(makefile, -1) {
		for _, name := range strings.Fields(m[1]) {
			declared[name] = true
		}
	}
	var breaches []string
	for name, help := range makeTargets(makefile) {
		if help == "" {
			breaches = append(breaches,
				fmt.Sprintf("Makefile: target %s has no line of help. Write it after its "+
					"prerequisites: %s: ## what it does", name, name))
		}
		if !declared[name] {
			breaches = append(breaches, fmt.Sprintf("Makefile: target %s is not in .PHONY", name))
		}
	}
	return sorted(breaches)
}

// subcommands returns the names of headroom's subcommands: the fields with a `cmd:""` tag in the Go
// files of a folder. A command's name is its name tag, or the field's name in lower case with
// hyphens.
func subcommands(tree fs.FS, dir string) (map[string]bool, error) {
	names := map[string]bool{}
	files, err := fs.Glob(tree, path.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, name := range files {
		text, err := fs.ReadFile(tree, name)
		if err != nil {
			return nil, err
		}
		for _, m := range commandTag.FindAllStringSubmatch(string(text), -1) {
			if named := nameTag.FindStringSubmatch(m[0]); named != nil {
				names[named[1]] = true
			} else {
				names[hyphenated(m[1])] = true
			}
		}
	}
	return names, nil
}

var wordStart = regexp.MustCompile(`([a-z0-9])([A-Z])`)

func hyphenated(field string) string {
	return strings.ToLower(wordStart.ReplaceAllString(field, "$1-$2"))
}

// checkCommands checks that each `make X` and `headroom X` in a document's code spans and fenced
// blocks exists.
func checkCommands(name, document string, targets map[string]string,
	commands map[string]bool) []string {
	var breaches []string
	for _, line := range shown(document) {
		if m := makeCommand.FindStringSubmatch(line); m != nil {
			for _, word := range strings.Fields(m[1]) {
				if _, ok := targets[word]; !ok && !strings.ContainsAny(word, "=/") {
					breaches = append(breaches,
						fmt.Sprintf("%s shows `%s`, but the Makefile has no target %s", name, line,
							word))
				}
			}
		}
		if m := ownCommand.FindStringSubmatch(line); m != nil && !commands[m[1]] {
			breaches = append(breaches,
				fmt.Sprintf("%s shows `%s`, but headroom has no command %s", name, line, m[1]))
		}
	}
	return sorted(breaches)
}

// shown returns the commands of a Markdown document: its code spans, and the lines of its fenced
// blocks without prompt and trailing comment.
func shown(document string) []string {
	var found []string
	for _, block := range fence.FindAllStringSubmatch(document, -1) {
		found = append(found, strings.Split(block[1], "\n")...)
	}
	for _, span := range codeSpan.FindAllStringSubmatch(fence.ReplaceAllString(document, ""), -1) {
		found = append(found, span[1])
	}
	for i, line := range found {
		line, _, _ = strings.Cut(line, " #")
		found[i] = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "$ "))
	}
	return found
}
