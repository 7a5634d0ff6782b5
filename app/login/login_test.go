package login

import (
	"encoding/xml"
	"os"
	"path/filepath"
	"strings"
	"testing"
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
		len(plist.Program) != 1 || plist.Program[0] != odd {
		t.Errorf("%q, %v", plist.Program, err)
	}
	for program, want := range map[string]string{
		"/usr/bin/headroom-agent": `Exec="/usr/bin/headroom-agent"`,
		"/a b/100%/x":             `Exec="/a b/100%%/x"`,
		`/a$b/"c"/d\e`:            `Exec="/a\\$b/\\"c\\"/d\\\\e"`,
	} {
		if text := desktopEntry(program); !strings.Contains(text, want+"\n") {
			t.Errorf("%q: %s; want %s", program, text, want)
		}
	}
}
