package main

// What lies where in the bundle, and how it gets there. Places are those of Apple's table
// (https://developer.apple.com/documentation/bundleresources/placing-content-in-a-bundle): programs
// in MacOS, the nested application in Helpers, everything that is no code in Resources, so that
// signing seals it.

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"headroom/app/window"
)

// minimumSystem is the oldest macOS that has Metal 3.1, in which the kernels are written (bfloat).
// Go 1.26 alone would run on 12.
const minimumSystem = "14.0"

// windowApp is the application inside the application, where the agent looks for it.
const windowApp = "Contents/" + window.Application + "/"

// kind is what a file of the bundle is, which decides how it is made and checked.
type kind int

const (
	program kind = iota + 1
	propertyList
	icon
	text
)

// file is one file of the bundle.
type file struct {
	path string // in the bundle
	kind kind
	from string // a program's or icon's name, or a path in the repository
}

var layout = []file{
	{"Contents/Info.plist", propertyList, "build/darwin/agent.plist"},
	{"Contents/MacOS/headroom-agent", program, "headroom-agent"},
	{"Contents/MacOS/headroom", program, "headroom"},
	{"Contents/Resources/Headroom.icns", icon, "Headroom.icns"},
	{"Contents/Resources/THIRD_PARTY.md", text, "build/THIRD_PARTY.md"},
	{windowApp + "Contents/Info.plist", propertyList, "build/darwin/window.plist"},
	{windowApp + "Contents/MacOS/headroom-window", program, "headroom-window"},
	{windowApp + "Contents/Resources/Headroom.icns", icon, "Headroom.icns"},
}

// signatures are the files that codesign and stapler add.
var signatures = []string{
	"Contents/_CodeSignature/CodeResources",
	"Contents/CodeResources", // the ticket of the notary
	windowApp + "Contents/_CodeSignature/CodeResources",
}

// sources is where an assembly takes its parts from.
type sources struct {
	repository string // root of the checkout
	programs   string // folder
	icons      string // folder
	version    string // CFBundleShortVersionString
	build      string // CFBundleVersion
}

// assemble makes the bundle anew; what was at its path is removed. It does not sign.
func assemble(app string, s sources) error {
	if !strings.HasSuffix(app, ".app") {
		return fmt.Errorf("the bundle's path is %q, want one that ends in .app", app)
	}
	for name, value := range map[string]string{"-programs": s.programs, "-icons": s.icons,
		"-version": s.version, "-build": s.build} {
		if value == "" {
			return fmt.Errorf("assemble needs %s", name)
		}
	}
	if err := os.RemoveAll(app); err != nil {
		return err
	}
	for _, f := range layout {
		data, err := s.read(f)
		if err != nil {
			return fmt.Errorf("%s: %w", f.path, err)
		}
		mode := os.FileMode(0o644)
		if f.kind == program {
			mode = 0o755
		}
		to := filepath.Join(app, filepath.FromSlash(f.path))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(to, data, mode); err != nil {
			return err
		}
	}
	return nil
}

// read is a file's content.
func (s sources) read(f file) ([]byte, error) {
	switch f.kind {
	case program:
		return os.ReadFile(filepath.Join(s.programs, f.from))
	case icon:
		return os.ReadFile(filepath.Join(s.icons, f.from))
	}
	data, err := os.ReadFile(filepath.Join(s.repository, filepath.FromSlash(f.from)))
	if err != nil || f.kind != propertyList {
		return data, err
	}
	form, err := template.New(f.from).Option("missingkey=error").Parse(string(data))
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = form.Execute(&out,
		map[string]string{"Version": s.version, "Build": s.build, "MinimumSystem": minimumSystem})
	return out.Bytes(), err
}
