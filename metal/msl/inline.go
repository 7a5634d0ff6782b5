package msl

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
	"unicode/utf8"
)

var include = regexp.MustCompile(`^\s*#\s*include\s+"([^"]*)"\s*(?://.*)?$`)

// Inline replaces `#include "x"` in text with the contents of file x of headers. Each file is
// inserted once, at its first include. #line directives keep the lines in compiler messages
// correct. Includes in angle brackets stay: they are Metal's. file is the name of text in messages.
// The error for a missing file has the file and line of its include.
//
// Metal compiles a source at run time from one string, without include files. The other devices
// compile the same string.
func Inline(headers fs.FS, file, text string) (string, error) {
	in := inliner{headers: headers, seen: map[string]bool{file: true}}
	if err := in.file(file, text); err != nil {
		return "", err
	}
	return in.out.String(), nil
}

type inliner struct {
	headers fs.FS
	seen    map[string]bool
	out     strings.Builder
}

func (in *inliner) file(name, text string) error {
	if !utf8.ValidString(text) {
		return fmt.Errorf("%s: the source is not UTF-8, which Metal requires", name)
	}
	fmt.Fprintf(&in.out, "#line 1 %q\n", name)
	for i, line := range strings.SplitAfter(text, "\n") {
		bare := strings.TrimRight(line, "\r\n")
		if strings.TrimSpace(bare) == "#pragma once" {
			// compilers warn about it outside of headers
			in.out.WriteString("\n")
			continue
		}
		m := include.FindStringSubmatch(bare)
		if m == nil {
			in.out.WriteString(line)
			continue
		}
		if err := in.include(m[1]); err != nil {
			return fmt.Errorf("%s:%d: %w", name, i+1, err)
		}
		fmt.Fprintf(&in.out, "\n#line %d %q\n", i+2, name)
	}
	return nil
}

func (in *inliner) include(name string) error {
	if name = path.Clean(name); in.seen[name] {
		return nil
	}
	in.seen[name] = true
	if in.headers == nil {
		return fmt.Errorf("#include %q, but the source was given no headers", name)
	}
	text, err := fs.ReadFile(in.headers, name)
	if err != nil {
		return fmt.Errorf("#include %q: %w", name, err)
	}
	return in.file(name, string(text))
}
