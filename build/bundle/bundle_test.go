package main

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// machO returns the smallest program that passes: a header and the load commands that are checked.
func machO(cpu, platform, minimum uint32, signed bool, library string) []byte {
	var loads []byte
	commands := uint32(0)
	add := func(words ...uint32) {
		for _, w := range words {
			loads = binary.LittleEndian.AppendUint32(loads, w)
		}
		commands++
	}
	add(loadBuildVersion, 24, platform, minimum, minimum, 0)
	if signed {
		add(loadCodeSignature, 16, 0, 0)
	}
	name := append([]byte(library), make([]byte, 8-len(library)%8)...)
	// LC_LOAD_DYLIB: offset of the name, timestamp, two versions
	add(0xc, uint32(24+len(name)), 24, 0, 0, 0)
	loads = append(loads, name...)
	var out []byte
	for _, w := range []uint32{0xfeedfacf, cpu, 0,
		2 /* MH_EXECUTE */, commands, uint32(len(loads)), 0, 0} {
		out = binary.LittleEndian.AppendUint32(out, w)
	}
	return append(out, loads...)
}

const (
	arm64    = 0x100000c
	macOS13  = 13 << 16
	macOS143 = 14<<16 | 3<<8
)

var goodProgram = machO(arm64, platformMac, macOS13, true, "/usr/lib/libSystem.B.dylib")

// icnsOf returns an .icns file with a PNG of each size. change returns the width to use for an
// entry, or 0 to leave it out.
func icnsOf(t *testing.T, change func(name string, pixels int) int) []byte {
	t.Helper()
	var body []byte
	entry := func(to []byte, name string, data []byte) []byte {
		return append(binary.BigEndian.AppendUint32(append(to, name...), uint32(8+len(data))),
			data...)
	}
	for _, size := range iconSizes {
		pixels := change(size.name, size.pixels)
		if pixels == 0 {
			continue
		}
		var out bytes.Buffer
		if err := png.Encode(&out, image.NewGray(image.Rect(0, 0, pixels, pixels))); err != nil {
			t.Fatal(err)
		}
		body = entry(body, size.name, out.Bytes())
	}
	return entry(nil, "icns", body)
}

var goodIcon []byte // icnsOf(asIs), created once

func asIs(_ string, pixels int) int { return pixels }

// assembled returns the path of a bundle with the real property lists, but fake programs and icons.
func assembled(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"headroom", "headroom-agent", "headroom-window"} {
		write(t, filepath.Join(dir, name), goodProgram)
	}
	if goodIcon == nil {
		goodIcon = icnsOf(t, asIs)
	}
	write(t, filepath.Join(dir, "Headroom.icns"), goodIcon)
	app := filepath.Join(dir, "Headroom.app")
	if err := assemble(app, sources{repository: "../..", programs: dir, icons: dir,
		version: "0.1.0", build: "335"}); err != nil {
		t.Fatal(err)
	}
	return app
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestAssembledBundlePasses(t *testing.T) {
	app := assembled(t)
	problems, err := check(os.DirFS(app))
	if err != nil || len(problems) > 0 {
		t.Fatalf("%v, %q", err, problems)
	}
	// Assembling over an old bundle must remove its files.
	stray := filepath.Join(app, "Contents/MacOS/old")
	write(t, stray, goodProgram)
	if problems, _ := check(os.DirFS(app)); len(problems) != 1 ||
		!strings.Contains(problems[0], "Contents/MacOS/old: not part of the layout") {
		t.Fatalf("%q", problems)
	}
	dir := filepath.Dir(app)
	if err := assemble(app, sources{repository: "../..", programs: dir, icons: dir,
		version: "0.1.0", build: "336"}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(stray); err == nil {
		t.Error("the old file is still there")
	}
}

func TestSignedBundlePasses(t *testing.T) {
	app := assembled(t)
	for _, name := range signatures {
		path := filepath.Join(app, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, path, []byte("seal"))
	}
	if problems, err := check(os.DirFS(app)); err != nil || len(problems) > 0 {
		t.Fatalf("%v, %q", err, problems)
	}
}

// TestCheckReportsProblems breaks one property of the bundle at a time.
func TestCheckReportsProblems(t *testing.T) {
	const (
		agentList  = "Contents/Info.plist"
		windowList = windowApp + "Contents/Info.plist"
		agent      = "Contents/MacOS/headroom-agent"
		icns       = "Contents/Resources/Headroom.icns"
	)
	replace := func(file, old, new string) func(*testing.T, string) {
		return func(t *testing.T, app string) {
			path := filepath.Join(app, file)
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Contains(data, []byte(old)) {
				t.Fatalf("%s does not hold %q", file, old)
			}
			write(t, path, bytes.ReplaceAll(data, []byte(old), []byte(new)))
		}
	}
	content := func(file string, data []byte) func(*testing.T, string) {
		return func(t *testing.T, app string) { write(t, filepath.Join(app, file), data) }
	}
	cases := []struct {
		name  string
		spoil func(t *testing.T, app string)
		want  string // substring of a problem
	}{
		{"a program is missing",
			func(t *testing.T, app string) { os.Remove(filepath.Join(app, agent)) },
			agent + ": missing"},
		{"CFBundleExecutable names a missing file",
			func(t *testing.T, app string) { os.Remove(filepath.Join(app, agent)) },
			`CFBundleExecutable is "headroom-agent", but there is no Contents/MacOS/headroom-agent`},
		{"a program without execute permission",
			func(t *testing.T, app string) { os.Chmod(filepath.Join(app, agent), 0o644) },
			agent + ": permissions 644, want 755"},
		{"a link", func(t *testing.T, app string) {
			os.Symlink("MacOS", filepath.Join(app, "Contents/Programs"))
		}, "Contents/Programs: not a regular file"},
		{"a key is misspelt", replace(agentList, "<key>LSUIElement</key>",
			"<key>LSUiElement</key>"), "LSUIElement is missing"},
		{"a misspelt key is unknown",
			replace(agentList, "<key>LSUIElement</key>", "<key>LSUiElement</key>"),
			"LSUiElement is not an allowed key"},
		{"a boolean as a string", replace(agentList, "<true/>", "<string>true</string>"),
			"LSUIElement is true (string), want true (bool)"},
		{"a key twice", replace(agentList, "<key>CFBundleVersion</key>",
			"<key>LSUIElement</key><true/><key>CFBundleVersion</key>"),
			"LSUIElement occurs twice"},
		{"two hyphens in a comment", replace(windowList, "What the Dock", "--open: what the Dock"),
			"not well-formed XML"},
		{"a version that macOS cannot compare",
			replace(agentList, "<string>0.1.0</string>", "<string>0.1.0-5-gabc</string>"),
			"CFBundleShortVersionString is"},
		{"an unfilled template field",
			replace(agentList, "<string>335</string>", "<string>{{.Build}}</string>"),
			"CFBundleVersion is"},
		{"versions differ", replace(windowList, "<string>335</string>", "<string>334</string>"),
			"CFBundleVersion is 335 in the agent and 334 in the window"},
		{"one identifier for both",
			replace(windowList, "app.headroom.window", "app.headroom.agent"),
			"agent and window have the same CFBundleIdentifier"},
		{"an empty permission text", replace(agentList,
			"Headroom looks for models in the folders you chose.", ""),
			"NSDownloadsFolderUsageDescription is"},
		{"CFBundleIconFile names a missing file",
			replace(windowList, "<string>Headroom</string>\n\t<key>CFBundleShort",
				"<string>iconfile</string>\n\t<key>CFBundleShort"),
			`CFBundleIconFile is "iconfile", but there is no`},
		{"an icon size is missing", content(icns, icnsOf(t, func(name string, n int) int {
			if name == "ic11" {
				return 0
			}
			return n
		})), "has no ic11 (32 pixels)"},
		{"an icon of the wrong size", content(icns, icnsOf(t, func(name string, n int) int {
			if name == "ic10" {
				return 512
			}
			return n
		})), "ic10 has 512x512 pixels, want 1024"},
		{"a truncated icon", content(icns, icnsOf(t, asIs)[:100]), "a truncated one"},
		{"an entry that is too long",
			content(icns, []byte("icns\x00\x00\x00\x10ic10\x00\x00\x00\x09")),
			"has length 9, but 8 bytes are left"},
		{"a program for Linux", content(agent, []byte("\x7fELF")), "no Mach-O program"},
		{"a program for Intel", content(agent,
			machO(0x1000007, platformMac, macOS13, true, "/usr/lib/a")), "CpuAmd64"},
		{"a program for a phone", content(agent, machO(arm64, 2, macOS13, true, "/usr/lib/a")),
			"platform 2"},
		{"a program for a newer system",
			content(agent, machO(arm64, platformMac, macOS143, true, "/usr/lib/a")),
			"needs macOS 14.3, but the bundle promises 14.0"},
		{"no signature", content(agent, machO(arm64, platformMac, macOS13, false, "/usr/lib/a")),
			"is not signed"},
		{"a library of the build machine",
			content(agent, machO(arm64, platformMac, macOS13, true,
				"/opt/homebrew/lib/libx.dylib")), "needs /opt/homebrew/lib/libx.dylib"},
		{"no licences", content("Contents/Resources/THIRD_PARTY.md", nil), "THIRD_PARTY.md: empty"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			app := assembled(t)
			c.spoil(t, app)
			problems, err := check(os.DirFS(app))
			if err != nil {
				t.Fatal(err)
			}
			if all := strings.Join(problems, "\n"); !strings.Contains(all, c.want) {
				t.Errorf("problems:\n%s\nwant %q", all, c.want)
			}
		})
	}
}

func TestNewer(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{{"14.0", "14.0", false}, {"14.1", "14.0", true}, {"13.9", "14.0", false},
		{"26.0", "14.0", true}, {"9.0", "14.0", false}} {
		if got := newer(c.a, c.b); got != c.want {
			t.Errorf("newer(%s, %s) is %v", c.a, c.b, got)
		}
	}
}

func TestAssembleRefuses(t *testing.T) {
	full := sources{repository: "../..", programs: "p", icons: "i", version: "1", build: "1"}
	if err := assemble(t.TempDir(), full); err == nil ||
		!strings.Contains(err.Error(), "must end in .app") {
		t.Errorf("accepts a folder that is not a bundle: %v", err)
	}
	if err := assemble("x.app", sources{}); err == nil ||
		!strings.Contains(err.Error(), "assemble needs -") {
		t.Errorf("error %v", err)
	}
	foreign := filepath.Join(t.TempDir(), "Other.app")
	plist := filepath.Join(foreign, "Contents", "Info.plist")
	if err := os.MkdirAll(filepath.Dir(plist), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, plist, []byte("<string>org.other</string>"))
	if err := assemble(foreign, full); err == nil ||
		!strings.Contains(err.Error(), "not a bundle") {
		t.Errorf("replaces another program's bundle: %v", err)
	}
	if _, err := os.Stat(plist); err != nil {
		t.Error(err)
	}
}

// FuzzBinaries checks that arbitrary input is refused without a panic.
func FuzzBinaries(f *testing.F) {
	f.Add(goodProgram)
	f.Add(machO(arm64, platformMac, macOS13, false, "/opt/x"))
	f.Add([]byte("icns\x00\x00\x00\x10ic10\x00\x00\x00\x08"))
	f.Fuzz(func(t *testing.T, data []byte) {
		checkProgram(bytes.NewReader(data), minimumSystem)
		if len(data) >= 8 {
			// a valid length, to get past the first check
			binary.BigEndian.PutUint32(data[4:], uint32(len(data)))
		}
		checkIcon(data)
		checkPropertyList(data, agentRules)
	})
}
