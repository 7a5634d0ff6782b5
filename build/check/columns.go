package check

// The limit of a line's width. It is the same for prose and code, because both are read in the same
// editor and in side-by-side diffs.

import (
	"fmt"
	"go/scanner"
	"go/token"
	"io/fs"
	"regexp"
	"strings"
	"unicode/utf8"
)

// tabColumns is the width of a tab.
const tabColumns = 4

// columnFile matches the files that people write and read: sources, documents and scripts.
var columnFile = regexp.MustCompile(
	`\.(go|c|h|m|metal|ts|mts|js|mjs|svelte|css|html|py|sh|md|svg)$|` +
		`(^|/)(Makefile|run)$|^build/[^.]*$`)

// checkColumns finds lines of more than limit columns. A line that cannot be broken may be longer:
// a single word such as a URL, a row of a Markdown table, or text in a raw string. Generated files
// and licence texts of other projects are skipped.
func checkColumns(tree fs.FS, limit int) []string {
	return eachText(tree, columnFile, func(name string, text []byte) []string {
		if generated.Match(text) || name == "build/THIRD_PARTY.md" {
			return nil
		}
		var breaches []string
		raw := rawLines(name, text)
		for i, line := range strings.Split(string(text), "\n") {
			n := columns(line)
			if n <= limit || raw[i+1] || unbreakable(name, line) {
				continue
			}
			breaches = append(breaches,
				fmt.Sprintf("%s:%d: %d columns, at most %d", name, i+1, n, limit))
		}
		return breaches
	})
}

// columns returns the width of a line with its tabs expanded.
func columns(line string) int {
	return utf8.RuneCountInString(line) + (tabColumns-1)*strings.Count(line, "\t")
}

// lineStart matches a prefix that may precede the only word of a line: indentation, a comment sign,
// a list's bullet, a key.
var lineStart = regexp.MustCompile(`^\s*(//|#|--|[-*]|"?[\w.-]+"?:)?\s*`)

// unbreakable reports whether a line cannot be broken.
func unbreakable(name, line string) bool {
	rest := strings.TrimSpace(line[len(lineStart.FindString(line)):])
	return !strings.Contains(rest, " ") ||
		strings.HasSuffix(name, ".md") && strings.HasPrefix(rest, "|")
}

// rawLines returns the numbers of the lines of a Go file that contain a raw string or a part of
// one, such as a struct tag.
func rawLines(name string, text []byte) map[int]bool {
	covered := map[int]bool{}
	if !strings.HasSuffix(name, ".go") {
		return covered
	}
	var s scanner.Scanner
	file := token.NewFileSet().AddFile(name, -1, len(text))
	s.Init(file, text, nil, 0)
	for {
		pos, tok, lit := s.Scan()
		if tok == token.EOF {
			return covered
		}
		if tok != token.STRING || lit[0] != '`' {
			continue
		}
		first := file.Line(pos)
		for line := first; line <= first+strings.Count(lit, "\n"); line++ {
			covered[line] = true
		}
	}
}
