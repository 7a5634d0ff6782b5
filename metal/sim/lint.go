//go:build linux && amd64

package sim

// Constructs that C++ for OpenCL accepts and Metal rejects, found in clang's dump of the syntax
// tree.

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"headroom/metal/clang"
)

var (
	// a position has a file and a line, or only a line
	positionText = regexp.MustCompile(
		`(?:<|, |> )([^<>:, ]+\.(?:metal|h|clcpp)|entries|<scratch space>|<built-in>):(\d+):\d+|(?:<|, |> )line:(\d+):\d+`)
	nodeText  = regexp.MustCompile(`^([|\x60 -]*)([A-Za-z]+) 0x[0-9a-f]+`)
	namedText = regexp.MustCompile(
		`(?:col|line):[\d:]+ (?:used |referenced |invalid )*([A-Za-z_]\w*) '`)
)

// lint returns a CompileError that lists every construct that Metal rejects, with file and line.
func (c *compiler) lint(dir string, arguments []string) error {
	dump, err := clang.Run(dir, c.clang,
		slices.Concat(arguments,
			[]string{"-fsyntax-only", "-Xclang", "-ast-dump", clang.SourceFile})...)
	if err != nil {
		return err
	}
	var faults []error
	seen := map[string]bool{}
	file, line, before := "", "", ""
	lines := bufio.NewScanner(bytes.NewReader(dump))
	lines.Buffer(make([]byte, 1<<20), 1<<26)
	for lines.Scan() {
		text := lines.Text()
		node := nodeText.FindStringSubmatch(text)
		if node == nil {
			continue
		}
		for _, m := range positionText.FindAllStringSubmatch(text, -1) {
			if m[1] != "" {
				file, line = m[1], m[2]
			} else {
				line = m[3]
			}
		}
		if !ours(file) {
			before = text
			continue
		}
		if message := refused(node[2], len(node[1]) == 2, text, before); message != "" &&
			!seen[file+line+message] {
			seen[file+line+message] = true
			faults = append(faults, fmt.Errorf("%s:%s: %s", file, line, message))
		}
		before = text
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("reading clang's syntax tree: %w", err)
	}
	if len(faults) > 0 {
		return &clang.CompileError{Text: errors.Join(faults...).Error()}
	}
	return nil
}

// ours reports whether a file is part of the kernel's source rather than of the shim.
func ours(file string) bool {
	return file != "" && !strings.HasPrefix(file, "/") && !strings.HasPrefix(file, "./") &&
		file != "entries" && file != "<scratch space>" && !strings.HasPrefix(file, "msl_") &&
		!strings.HasPrefix(file, "sim_")
}

// named reports whether a declaration has a name. For a parameter of an implicit member the pattern
// matches "used" or the like instead.
func named(text string) bool {
	m := namedText.FindStringSubmatch(text)
	return m != nil && m[1] != "used" && m[1] != "referenced" && m[1] != "invalid"
}

// refused returns why Metal rejects a node of the syntax tree, "" if Metal accepts it. global says
// that the node is a declaration at program scope. text is the node's line in clang's dump. The
// argument before is the line above it.
func refused(kind string, global bool, text, before string) string {
	implicit := strings.Contains(text, " implicit ")
	switch kind {
	case "ParmVarDecl", "VarDecl":
		variable := kind == "VarDecl"
		switch {
		case strings.Contains(text, "__generic") && !implicit && named(text):
			return "pointer or reference without an address space: write device, constant, " +
				"threadgroup or thread"
		case variable && strings.Contains(text, " static") && !strings.Contains(text, "__constant"):
			return "static variable: Metal has none in functions"
		case variable && global && !strings.Contains(text, "__constant"):
			return "variable at program scope: it must be constant"
		}
	case "GotoStmt":
		return "goto: Metal does not have it"
	case "LambdaExpr":
		return "lambda: Metal does not have it"
	case "ImplicitCastExpr":
		if strings.Contains(text, "AddressSpaceConversion") &&
			strings.Contains(before, "MemberExpr") && !strings.Contains(before, "operator=") {
			return "member function of an object that is not in the thread address space: copy " +
				"the object first"
		}
	}
	return ""
}
