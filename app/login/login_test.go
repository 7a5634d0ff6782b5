package login

import (
	"encoding/xml"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"headroom/engine/problem"
)

func TestItem(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(home, "config"))
	i, err := New("/opt/a b/headroom-agent")
	if err != nil {
		t.Fatal(err)
	}
	on := func(want bool) {
		t.Helper()
		if i.On() != want {
			t.Errorf("on is %v", i.On())
		}
	}
	on(false)
	for _, set := range []bool{false, true, true, false, true} { // the folder is missing at first
		if err := i.Set(set); err != nil {
			t.Fatal(err)
		}
		on(set)
	}
	if moved, _ := New("/opt/elsewhere/headroom-agent"); moved.On() {
		t.Error("On returns true for an entry with another path")
	}
	if err := os.Remove(i.file); err != nil {
		t.Fatal(err)
	}
	on(false)
	if err := os.Mkdir(i.file, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := i.Set(true); err == nil {
		t.Error("Set succeeds although a folder has the file's name")
	}
}

// TestForeignItem: an entry that Headroom did not write is neither removed nor replaced. One for
// another path is.
func TestForeignItem(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	i, err := New("/opt/headroom-agent")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(i.file), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", "[Desktop Entry]\nExec=/usr/bin/other\n",
		strings.Replace(i.text, "headroom-agent", "headroom-agent\nEnv=1", 1),
		i.text + "Hidden=true\n", i.text + strings.Repeat("# mine\n", maxBytes)} {
		if err := os.WriteFile(i.file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		for _, on := range []bool{false, true} {
			if err := i.Set(on); problem.From(err).Code != problem.BadRequest {
				t.Errorf("%.200q, %v: error %v", text, on, err)
			}
		}
		if left, err := os.ReadFile(i.file); err != nil || string(left) != text {
			t.Errorf("%.200q became %.200q, %v", text, left, err)
		}
	}
	moved := strings.Replace(i.text, "/opt", "/elsewhere", 1)
	if err := os.WriteFile(i.file, []byte(moved), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := i.Set(false); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(i.file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the entry of a moved program is left: %v", err)
	}
}

// TestTemporaryPath: a login item for a temporary path is refused, but can be turned off.
func TestTemporaryPath(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	i, err := New("/private/var/folders/ab/AppTranslocation/12-34/d/Headroom.app/" +
		"Contents/MacOS/headroom-agent")
	if err != nil {
		t.Fatal(err)
	}
	err = i.Set(true)
	if err == nil || !strings.Contains(err.Error(), "from its current location") || i.On() {
		t.Errorf("error %v, on %v", err, i.On())
	}
	if err := i.Set(false); err != nil {
		t.Error(err)
	}
}

func TestTexts(t *testing.T) {
	var plist struct {
		Program []string `xml:"dict>array>string"`
	}
	const odd = `/Apps/A & B <1>/he"ad`
	if err := xml.Unmarshal([]byte(launchAgent(odd)), &plist); err != nil ||
		!slices.Equal(plist.Program, []string{odd, "--no-open"}) {
		t.Errorf("%q, %v", plist.Program, err)
	}
	for program, want := range map[string]string{
		"/usr/bin/headroom-agent": `Exec="/usr/bin/headroom-agent" --no-open`,
		"/a b/100%/x":             `Exec="/a b/100%%/x" --no-open`,
		`/a$b/"c"/d\e`:            `Exec="/a\\$b/\\"c\\"/d\\\\e" --no-open`,
	} {
		if text := desktopEntry(program); !strings.Contains(text, want+"\n") {
			t.Errorf("%q: %s; want %s", program, text, want)
		}
	}
}
