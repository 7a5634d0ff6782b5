package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// These tests run the scripts that sign, notarize and make the disk image. Fakes of Apple's tools
// record their calls. Apple's tools themselves are not tested.

// mac is a fake Mac: a PATH with fake tools, and their output.
type mac struct {
	t    *testing.T
	path string
	log  string
	app  string // a bundle, in a folder with a space

	display      string // output of codesign --display
	entitlements string // output of codesign --display --entitlements
	notary       string // output of notarytool submit
	fails        string // name of the tool that fails
}

// tool logs its arguments in brackets, so that spaces inside them show.
const tool = `#!/bin/bash
{ printf '%s' "${0##*/}"; printf ' [%s]' "$@"; echo; } >>"$LOG"
case "${0##*/} $*" in
"$FAILS "*) echo "$FAILS says no" >&2; exit 1 ;;
"codesign --display --entitlements "*) printf '%s' "$ENTITLEMENTS" ;;
"codesign --display "*) printf '%s\n' "$DISPLAYED" >&2 ;;
"xcrun notarytool submit "*) printf '%s\n' "$NOTARY" ;;
"xcrun notarytool log "*) echo "the log says why" ;;
"ditto -c "*) echo zip >"${@: -1}" ;;
"ditto "*) cp -R "$1" "$2" ;;
"hdiutil create "*) ls "$5" >>"$LOG"; readlink "$5/Applications" >>"$LOG"; echo image >"${@: -1}" ;;
esac
`

func newMac(t *testing.T) *mac {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "a folder")
	m := &mac{
		t: t, path: filepath.Join(dir, "tools"), log: filepath.Join(dir, "log"),
		app: filepath.Join(dir, "Headroom.app"),
		display: "Authority=Developer ID Application: Ada (ABC)\nCodeDirectory " +
			"flags=0x10000(runtime)",
		notary: "  id: 0a-1b\n  status: Accepted",
	}
	for _, d := range []string{m.path, filepath.Join(m.app, windowApp)} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	// Only these other tools are in PATH, so that on a real Mac the scripts do not find Apple's.
	for _, name := range []string{"bash", "mktemp", "rm", "sed", "head", "mkdir", "ln", "ls",
		"readlink", "cp", "dirname"} {
		real, err := exec.LookPath(name)
		if err == nil {
			err = os.Symlink(real, filepath.Join(m.path, name))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"codesign", "xcrun", "hdiutil", "ditto", "spctl"} {
		if err := os.WriteFile(filepath.Join(m.path, name), []byte(tool), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// run runs one of build/darwin's scripts. calls are the calls of the tools, with APP for the
// bundle, DIR for its folder and TMP for the temporary folder.
func (m *mac) run(
	script string, env []string, args ...string,
) (output string, calls []string, err error) {
	m.t.Helper()
	script, absolute := filepath.Abs(filepath.Join("../darwin", script))
	if absolute != nil {
		m.t.Fatal(absolute)
	}
	if _, err := os.ReadFile(script); err != nil { // makes the test cache depend on it
		m.t.Fatal(err)
	}
	temporary := m.t.TempDir()
	_ = os.Remove(m.log)
	command := exec.Command("bash", append([]string{script}, args...)...)
	command.Env = append(env, "PATH="+m.path, "LOG="+m.log, "FAILS="+m.fails,
		"DISPLAYED="+m.display,
		"ENTITLEMENTS="+m.entitlements, "NOTARY="+m.notary, "TMPDIR="+temporary)
	out, err := command.CombinedOutput()
	log, _ := os.ReadFile(m.log) // absent when nothing was called
	for line := range strings.Lines(string(log)) {
		line = strings.ReplaceAll(strings.TrimSpace(line), m.app, "APP")
		line = strings.ReplaceAll(line, filepath.Dir(m.app), "DIR")
		for strings.Contains(line, temporary) {
			before, after, _ := strings.Cut(line, temporary)
			_, after, _ = strings.Cut(after[1:], "/")
			line = before + "TMP/" + after
		}
		calls = append(calls, line)
	}
	return string(out), calls, err
}

func (m *mac) expect(calls []string, want ...string) {
	m.t.Helper()
	if got, want := strings.Join(calls, "\n"), strings.Join(want, "\n"); got != want {
		m.t.Errorf("called:\n%s\nwant:\n%s", got, want)
	}
}

const identity = "HEADROOM_SIGN_IDENTITY=Developer ID Application: Ada (ABC)"

func TestSignFromTheInsideOut(t *testing.T) {
	m := newMac(t)
	output, calls, err := m.run("sign", []string{identity}, m.app)
	if err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	const sign = "codesign [--force] [--options] [runtime] [--timestamp] " +
		"[--sign] [Developer ID Application: Ada (ABC)] [--identifier] "
	const cli, window = "[APP/Contents/MacOS/headroom]",
		"[APP/Contents/Helpers/Headroom Window.app]"
	look := func(part string) []string {
		return []string{"codesign [--display] [--verbose=4] " + part,
			"codesign [--display] [--entitlements] [-] [--xml] " + part}
	}
	want := []string{
		sign + "[app.headroom.cli] " + cli,
		sign + "[app.headroom.window] " + window,
		sign + "[app.headroom.agent] [APP]",
		"codesign [--verify] [--strict] [--deep] [--verbose=2] [APP]",
	}
	want = append(append(append(want, look(cli)...), look(window)...), look("[APP]")...)
	m.expect(calls, want...)
}

func TestSignAdHoc(t *testing.T) {
	m := newMac(t)
	output, calls, err := m.run("sign", []string{"HEADROOM_SIGN_IDENTITY=-"}, m.app)
	if err != nil || len(calls) < 3 {
		t.Fatalf("%v: %s", err, output)
	}
	for _, call := range calls[:3] {
		if !strings.Contains(call, "[--timestamp=none] [--sign] [-]") {
			t.Errorf("called %s", call)
		}
	}
}

func TestNotarizeBundle(t *testing.T) {
	m := newMac(t)
	output, calls, err := m.run("notarize", []string{"HEADROOM_NOTARY_PROFILE=ours"}, m.app)
	if err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	m.expect(calls,
		"codesign [--display] [--verbose=4] [APP]",
		"ditto [-c] [-k] [--keepParent] [APP] [TMP/Headroom.zip]",
		"xcrun [notarytool] [submit] [TMP/Headroom.zip] [--keychain-profile] [ours] [--wait] "+
			"[--timeout] [1h]",
		"xcrun [stapler] [staple] [APP]",
		"xcrun [stapler] [validate] [APP]",
		"spctl [--assess] [--type] [execute] [--verbose] [APP]")
}

func TestNotarizeRejected(t *testing.T) {
	m := newMac(t)
	m.notary = "  id: 0a-1b\n  status: Invalid"
	output, calls, err := m.run("notarize", []string{"HEADROOM_NOTARY_PROFILE=ours"}, m.app)
	if err == nil || !strings.Contains(output, "the log says why") ||
		!strings.Contains(output, "service rejected") {
		t.Errorf("%v: %s", err, output)
	}
	last := calls[len(calls)-1]
	if last != "xcrun [notarytool] [log] [0a-1b] [--keychain-profile] [ours]" {
		t.Errorf("last call %s, want notarytool log and no stapling", last)
	}
}

func TestDiskImage(t *testing.T) {
	m := newMac(t)
	image := filepath.Join(filepath.Dir(m.app), "Headroom.dmg")
	made := []string{
		"ditto [APP] [TMP/Headroom/Headroom.app]",
		"hdiutil [create] [-volname] [Headroom] [-srcfolder] [TMP/Headroom] [-fs] [HFS+] " +
			"[-format] [ULFO] [DIR/Headroom.dmg]",
		"Applications", "Headroom.app", // the content of the image
		"/Applications", // the target of the link
		"hdiutil [verify] [DIR/Headroom.dmg]",
	}
	output, calls, err := m.run("dmg", nil, m.app, image)
	if err != nil || !strings.Contains(output, "is not signed") {
		t.Fatalf("%v: %s", err, output)
	}
	m.expect(calls, made...)

	signed := append(made,
		"codesign [--force] [--timestamp] [--sign] [Developer ID Application: Ada (ABC)] "+
			"[--identifier] [app.headroom.dmg] [DIR/Headroom.dmg]",
		"codesign [--verify] [--strict] [--verbose=2] [DIR/Headroom.dmg]")
	output, calls, err = m.run("dmg", []string{identity}, m.app, image)
	if err != nil || !strings.Contains(output, "signed but not notarized") {
		t.Fatalf("%v: %s", err, output)
	}
	m.expect(calls, signed...)

	output, calls, err = m.run("dmg", []string{identity, "HEADROOM_NOTARY_PROFILE=ours"}, m.app,
		image)
	if err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	m.expect(calls, append(signed,
		"xcrun [notarytool] [submit] [DIR/Headroom.dmg] [--keychain-profile] [ours] [--wait] "+
			"[--timeout] [1h]",
		"xcrun [stapler] [staple] [DIR/Headroom.dmg]",
		"xcrun [stapler] [validate] [DIR/Headroom.dmg]",
		"spctl [--assess] [--type] [open] [--context] [context:primary-signature] [--verbose] "+
			"[DIR/Headroom.dmg]")...)
}

// TestReleaseScriptsRefuse checks that the scripts name what is missing, and stop before they call
// further tools.
func TestReleaseScriptsRefuse(t *testing.T) {
	profile := "HEADROOM_NOTARY_PROFILE=ours"
	cases := []struct {
		name, script string
		env          []string
		spoil        func(m *mac)
		want         string // part of the output
		maxCalls     int    // calls of tools before the script stops
	}{
		{"no identity", "sign", nil, nil, "HEADROOM_SIGN_IDENTITY is not set", 0},
		{"no bundle to sign", "sign", []string{identity}, func(m *mac) { os.RemoveAll(m.app) },
			"Run make app first", 0},
		{"no codesign", "sign", []string{identity},
			func(m *mac) { os.Remove(filepath.Join(m.path, "codesign")) }, "codesign is missing",
			0},
		{"codesign fails", "sign", []string{identity}, func(m *mac) { m.fails = "codesign" },
			"codesign says no", 1},
		{"no hardened runtime", "sign", []string{identity},
			func(m *mac) { m.display = "flags=0x2(adhoc)" }, "lacks the hardened runtime", 5},
		{"entitlements", "sign", []string{identity}, func(m *mac) { m.entitlements = "<plist/>" },
			"has entitlements but should have none", 6},
		{"no profile", "notarize", nil, nil, "HEADROOM_NOTARY_PROFILE is not set", 0},
		{"nothing to notarize", "notarize", []string{profile}, func(m *mac) { os.RemoveAll(m.app) },
			"does not exist", 0},
		{"signed ad hoc", "notarize", []string{profile},
			func(m *mac) { m.display = "Signature=adhoc" }, "is not signed with a Developer ID", 1},
		{"the notary cannot be reached", "notarize", []string{profile},
			func(m *mac) { m.fails = "xcrun" }, "the submission failed: xcrun says no", 3},
		{"no bundle for an image", "dmg", nil, func(m *mac) { os.RemoveAll(m.app) },
			"Run make app first", 0},
		{"no hdiutil", "dmg", nil, func(m *mac) { os.Remove(filepath.Join(m.path, "hdiutil")) },
			"hdiutil is missing", 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			m := newMac(t)
			if c.spoil != nil {
				c.spoil(m)
			}
			args := []string{m.app}
			if c.script == "dmg" {
				args = append(args, filepath.Join(filepath.Dir(m.app), "x.dmg"))
			}
			output, calls, err := m.run(c.script, c.env, args...)
			if err == nil || !strings.Contains(output, c.want) {
				t.Errorf("%v, output %q, want %q", err, output, c.want)
			}
			if len(calls) > c.maxCalls {
				t.Errorf("the script did not stop: %q", calls)
			}
		})
	}
}
