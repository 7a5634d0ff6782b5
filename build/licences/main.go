// Licences writes build/THIRD_PARTY.md: the third-party software in the programs, with its
// licences. Every package includes that file.
//
//	go run ./build/licences          (needs frontend/node_modules: build/setup frontend)
//	go run ./build/licences -sbom bin/sbom.json -version v0.1.0
//
// The second form writes a bill of materials instead (sbom.go). It needs no node_modules.
//
// It lists the Go modules that the three programs import on macOS and on Linux, and all npm
// packages that the web UI depends on, although the bundler leaves most of them out. A test
// compares names and versions with go.mod and the lock file; it needs neither network nor
// node_modules.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const output = "build/THIRD_PARTY.md"

func main() {
	file := flag.String("sbom", "", "write a bill of materials to this `FILE` instead")
	version := flag.String("version", "unknown", "version of Headroom in the bill")
	flag.Parse()
	var err error
	if *file == "" {
		err = run(".")
	} else {
		var data []byte
		if data, err = sbom(".", *version); err == nil {
			err = os.WriteFile(*file, data, 0o644)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "licences:", err)
		os.Exit(1)
	}
}

func run(root string) error {
	parts, err := modules(root)
	if err != nil {
		return err
	}
	packages, err := npmPackages(root)
	if err != nil {
		return err
	}
	parts = append(parts, packages...)
	var page bytes.Buffer
	if err := write(&page, parts); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, output), page.Bytes(), 0o644)
}

// part is a Go module or an npm package.
type part struct {
	name, version string
	dir           string // folder of its files
	licence       string // name of the licence, for packages without its text; "" if unknown
	integrity     string // checksum in the lock file, of an npm package
}

func (p part) String() string { return strings.TrimSpace(p.name + " " + p.version) }

// programs are the programs in a package, and platforms the systems that they are built for.
var (
	programs  = []string{".", "./app/cmd/headroom", "./app/cmd/headroom-agent"}
	platforms = []struct{ system, arch, tags string }{
		{"darwin", "arm64", "desktop,production"},
		{"linux", "amd64", "desktop,production,webkit2_41"},
	}
)

// modules returns Go and the modules that the programs import.
func modules(root string) ([]part, error) {
	all := map[string]part{}
	for _, platform := range platforms {
		command := exec.Command("go", append([]string{"list", "-e", "-deps", "-tags", platform.tags,
			"-f",
			"{{with .Module}}{{if not .Main}}{{.Path}}\t{{.Version}}\t{{.Dir}}{{end}}{{end}}"},
			programs...)...)
		command.Dir = root
		command.Env = append(os.Environ(), "GOOS="+platform.system, "GOARCH="+platform.arch,
			"CGO_ENABLED=1")
		var stderr bytes.Buffer
		command.Stderr = &stderr
		out, err := command.Output()
		if err != nil {
			return nil, fmt.Errorf("go list: %w\n%s", err, stderr.String())
		}
		for line := range strings.Lines(string(out)) {
			if path, rest, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
				version, dir, _ := strings.Cut(rest, "\t")
				all[path] = part{name: path, version: version, dir: dir}
			}
		}
	}
	command := exec.Command("go", "env", "GOROOT")
	command.Dir = root
	goroot, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	// Go's standard library and runtime are in every program.
	parts := []part{{name: "Go", dir: strings.TrimSpace(string(goroot))}}
	for _, path := range slices.Sorted(maps.Keys(all)) {
		parts = append(parts, all[path])
	}
	return parts, nil
}

// npmPackages returns the packages in the lock file that are not marked "dev" or "optional". The
// optional ones are native code for Node, which no bundle contains: vite.config.ts bundles only
// what a browser can run.
func npmPackages(root string) ([]part, error) {
	data, err := os.ReadFile(filepath.Join(root, "frontend", "package-lock.json"))
	if err != nil {
		return nil, err
	}
	var lock struct {
		Packages map[string]struct {
			Version, License, Integrity string
			Dev, Optional               bool
		}
	}
	if err := json.Unmarshal(data, &lock); err != nil {
		return nil, fmt.Errorf("frontend/package-lock.json: %w", err)
	}
	var parts []part
	for _, path := range slices.Sorted(maps.Keys(lock.Packages)) {
		if entry := lock.Packages[path]; path != "" && !entry.Dev && !entry.Optional {
			name := path[strings.LastIndex(path, "node_modules/")+len("node_modules/"):]
			parts = append(parts, part{name, entry.Version, filepath.Join(root, "frontend", path),
				entry.License, entry.Integrity})
		}
	}
	return parts, nil
}

// write writes the page. A text that several parts share occurs once, below all their names.
func write(page *bytes.Buffer, parts []part) error {
	var texts []string
	owners := map[string][]string{}
	for _, p := range parts {
		text, err := terms(os.DirFS(p.dir))
		if err != nil {
			return fmt.Errorf("%v: %w", p, err)
		}
		if text == "" && p.licence != "" {
			text = "The package names its licence, " + p.licence +
				", but does not contain its text.\n"
		}
		if text == "" {
			return fmt.Errorf("%v has no licence in %s, so it cannot be shipped", p, p.dir)
		}
		if owners[text] == nil {
			texts = append(texts, text)
		}
		owners[text] = append(owners[text], p.String())
	}
	fmt.Fprintf(page,
		"# Third-party software in Headroom\n\nWritten by `go run ./build/licences`. Thanks to "+
			"all authors.\n")
	for _, text := range texts {
		fmt.Fprintf(page, "\n## %s\n\n", strings.Join(owners[text], ", "))
		for line := range strings.Lines(text) {
			// Indent the line, so that Markdown does not read a heading in it.
			page.WriteString(strings.TrimRight("    "+line, " \n") + "\n")
		}
	}
	return nil
}

// legal matches the names of files with licence terms.
var legal = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|unlicense)([.-].*)?$`)

// terms returns the texts of all files in a folder that legal matches, "" if there are none. It
// normalizes white space at line ends.
func terms(dir fs.FS) (string, error) {
	entries, err := fs.ReadDir(dir, ".")
	if err != nil {
		return "", err
	}
	var texts []string
	for _, entry := range entries {
		if entry.IsDir() || !legal.MatchString(entry.Name()) {
			continue
		}
		data, err := fs.ReadFile(dir, entry.Name())
		if err != nil {
			return "", err
		}
		var text strings.Builder
		for line := range strings.Lines(strings.TrimPrefix(string(data), "\ufeff")) {
			text.WriteString(strings.TrimRight(line, " \t\r\n") + "\n")
		}
		texts = append(texts, strings.Trim(text.String(), "\n")+"\n")
	}
	return strings.Join(texts, "\n"), nil
}
