package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var mac = target{os: "darwin", arch: "arm64", cgo: true}

// TestCheck type-checks small modules for darwin. Each has one file for all systems and one that
// only a Mac compiles. The errors are in the latter, where a build on Linux does not find them.
func TestCheck(t *testing.T) {
	cases := []struct {
		name   string
		darwin string // text of a_darwin.go
		want   string // substring of the only error, "" for none
	}{
		{"valid", "package a\n\nvar twice = 2 * once\n", ""},
		{"wrong type", "package a\n\nvar twice string = 2 * once\n", "cannot use 2 * once"},
		{"unknown name", "package a\n\nvar twice = 2 * nonce\n", "undefined: nonce"},
		{"syntax", "package a\n\nvar = \n", "expected"},
		{"calls into C",
			"package a\n\n// int f(void);\nimport \"C\"\n\nvar twice = 2 * int(C.f())\n", ""},
		{"wrong type in a file with C",
			"package a\n\n// int f(void);\nimport \"C\"\n\nvar _ = C.f()\n\nvar twice string = 2 " +
				"* once\n", "cannot use 2 * once"},
		{"the standard library", "package a\n\nimport \"os\"\n\nvar wd, _ = os.Getwd()\n", ""},
		{"misuse of the standard library", "package a\n\nimport \"os\"\n\nvar wd = os.Getwd()\n",
			"single-value context"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			problems := checkModule(t, mac,
				map[string]string{"a.go": "package a\n\nconst once = 1\n", "a_darwin.go": c.darwin})
			text := strings.Join(problems, "\n")
			if c.want == "" && len(problems) > 0 || !strings.Contains(text, c.want) {
				t.Errorf("errors:\n%s\nwant %q (none if empty)", text, c.want)
			}
		})
	}
}

// TestMissingPackage checks that an unresolved import is an error, not an empty package.
func TestMissingPackage(t *testing.T) {
	problems := checkModule(t, mac,
		map[string]string{"a.go": "package a\n\nimport \"fixture/nowhere\"\n\nvar _ = nowhere.X\n"})
	if text := strings.Join(problems, "\n"); !strings.Contains(text, "fixture/nowhere") {
		t.Errorf("errors:\n%s\nwant fixture/nowhere named", text)
	}
}

// TestWithoutCgo checks files that are compiled only without cgo, where an unused import is an
// error, too.
func TestWithoutCgo(t *testing.T) {
	const file = "//go:build !cgo\n\npackage a\n\n"
	on := target{os: "linux", arch: "arm64"}
	for text, want := range map[string]string{
		"var size [1]uint64\n":         "",
		"var once int = \"\"\n":        "cannot use",
		"import \"os\"\n\nvar a int\n": "\"os\" imported and not used",
	} {
		problems := checkModule(t, on, map[string]string{"a.go": "package a\n",
			"a_linux_arm64.go": file + text, "a_darwin.go": "package a\n\nvar a = unknown\n"})
		got := strings.Join(problems, "\n")
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%q: errors:\n%s\nwant %q (none if empty)", text, got, want)
		}
	}
}

func checkModule(t *testing.T, on target, files map[string]string) []string {
	t.Helper()
	dir := t.TempDir()
	files["go.mod"] = "module fixture\n\ngo 1.26\n"
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("GOFLAGS", "-mod=mod")
	packages, err := on.list(dir, []string{"."})
	if err != nil {
		t.Fatal(err)
	}
	problems, _ := on.check(packages)
	return problems
}
