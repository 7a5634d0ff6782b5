package main

// The layout of the bundle, and its assembly. The layout follows Apple's table
// (https://developer.apple.com/documentation/bundleresources/placing-content-in-a-bundle): programs
// are in MacOS, the nested application is in Helpers, and everything else is in Resources, so that
// the signature covers it.

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"headroom/app/window"
)

// minimumSystem is the oldest macOS with Metal 3.1, which the kernels need for bfloat. Go 1.26
// itself supports macOS 12.
const minimumSystem = "14.0"

// windowApp is the path of the nested application, where the agent looks for it.
const windowApp = "Contents/" + window.Application + "/"

// kind is the type of a file in the bundle. It decides how the file is made and checked.
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
	from string // name of a program or icon, or a path in the repository
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
	"Contents/CodeResources", // the stapled notarization ticket
	windowApp + "Contents/_CodeSignature/CodeResources",
}

// sources are the inputs of assemble.
type sources struct {
	repository string // root folder of the repository
	programs   string // folder of the programs
	icons      string // folder of the icons
	version    string // CFBundleShortVersionString
	build      string // CFBundleVersion
}

// assemble creates the bundle at app and replaces an older one. It does not sign the bundle.
func assemble(app string, s sources) error {
	if !strings.HasSuffix(app, ".app") {
		return fmt.Errorf("the path of the bundle is %q, but must end in .app", app)
	}
	for name, value := range map[string]string{"-programs": s.programs, "-icons": s.icons,
		"-version": s.version, "-build": s.build} {
		if value == "" {
			return fmt.Errorf("assemble needs %s", name)
		}
	}
	if err := removeBundle(app); err != nil {
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

// removeBundle removes an older bundle at app. It refuses a bundle of another program.
func removeBundle(app string) error {
	entries, err := os.ReadDir(app)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	plist, err := os.ReadFile(filepath.Join(app, "Contents", "Info.plist"))
	if err != nil || !bytes.Contains(plist, []byte("<string>app.headroom.agent</string>")) {
		return fmt.Errorf("%s is not a bundle of Headroom: choose another path", app)
	}
	return os.RemoveAll(app)
}

// read returns the content of a file.
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
