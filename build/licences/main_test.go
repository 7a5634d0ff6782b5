package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// TestCurrent checks that the page lists exactly the modules and packages of the programs.
func TestCurrent(t *testing.T) {
	const root = "../.."
	page, err := os.ReadFile(filepath.Join(root, output))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.ReadFile(filepath.Join(root, "go.mod")); err != nil {
		// makes the test cache depend on it
		t.Fatal(err)
	}
	want, err := modules(root)
	if err != nil {
		t.Fatal(err)
	}
	packages, err := npmPackages(root)
	if err != nil {
		t.Fatal(err)
	}
	if want = append(want, packages...); len(want) < 20 {
		t.Fatalf("found only %d modules and packages", len(want))
	}
	named := named(string(page))
	for _, p := range want {
		if !slices.Contains(named, p.String()) {
			t.Errorf("%s lacks %v. Run: go run ./build/licences", output, p)
		}
	}
	for _, name := range named {
		if !slices.ContainsFunc(want, func(p part) bool { return p.String() == name }) {
			t.Errorf("%s still has %s. Run: go run ./build/licences", output, name)
		}
	}
}

// named returns the names in the headings of a page.
func named(page string) (all []string) {
	for _, heading := range regexp.MustCompile(`(?m)^## (.*)$`).FindAllStringSubmatch(page, -1) {
		all = append(all, strings.Split(heading[1], ", ")...)
	}
	return all
}

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	folder := func(name string, files map[string]string) string {
		path := filepath.Join(dir, name)
		if err := os.Mkdir(path, 0o755); err != nil {
			t.Fatal(err)
		}
		for file, text := range files {
			if err := os.WriteFile(filepath.Join(path, file), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		return path
	}
	a := part{"a", "v1", folder("a",
		map[string]string{"LICENSE": "Do as you like.\r\n\r\n## Odd\r\n"}), "", ""}
	b := part{"b", "v2", folder("b",
		map[string]string{"licence.md": "\n\nDo as you like.  \n\n## Odd"}), "", ""}
	c := part{"c", "v3", folder("c", nil), "MIT", ""}
	d := part{"d", "v4", folder("d", map[string]string{"README": "x"}), "", ""}
	var page bytes.Buffer
	if err := write(&page, []part{a, c, b}); err != nil {
		t.Fatal(err)
	}
	if got, want := named(page.String()),
		[]string{"a v1", "b v2", "c v3"}; !slices.Equal(got, want) {
		t.Errorf("names %q, want %q", got, want)
	}
	for _, part := range []string{"## a v1, b v2\n\n    Do as you like.\n\n    ## Odd\n",
		"## c v3\n\n    The package names its licence, MIT,"} {
		if !strings.Contains(page.String(), part) {
			t.Errorf("%s\nlacks %q", &page, part)
		}
	}
	if err := write(&page, []part{d}); err == nil ||
		!strings.Contains(err.Error(), "d v4 has no licence") {
		t.Errorf("error %v", err)
	}
}

func TestTerms(t *testing.T) {
	tree := fstest.MapFS{}
	for _, name := range []string{"LICENSE", "LICENSE-3RD-PARTY.md", "COPYING", "Notice.txt",
		"license.go.txt/x", "licensed.go", "unlicense"} {
		tree[name] = &fstest.MapFile{Data: []byte("<" + name + ">")}
	}
	got, err := terms(tree)
	want := "<COPYING>\n\n<LICENSE>\n\n<LICENSE-3RD-PARTY.md>\n\n<Notice.txt>\n\n<unlicense>\n"
	if err != nil || got != want {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
}
