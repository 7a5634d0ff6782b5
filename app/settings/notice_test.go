package settings

import (
	"bytes"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
)

// TestNotices: the log names keys that this version does not know, and entries that allow nothing.
func TestNotices(t *testing.T) {
	for _, c := range []struct {
		name, file string
		which      []string
	}{
		{"nothing", `{"version":2,"port":80,"CACHE":{"maxsize":"5GB"},"models":{"o/a":` +
			`{"aliases":["x","X","a"],"templateArguments":{"any":1}},"o/b":{"aliases":["y"]}}}`,
			nil},
		{"keys of version 1", `{"version":1,"restMinutes":5,"cache":{"hotSize":"1GB"}}`, nil},
		{"keys of version 1 in version 2", `{"version":2,"restMinutes":5}`,
			[]string{"restMinutes"}},
		{"keys", `{"version":2,"theme":1,"cache":{"tier":3},"models":{"o/a":{"draft":"b"}}}`,
			[]string{"cache.tier; models.o/a.draft; theme"}},
		{"many keys", `{"a0":0,"a1":0,"a2":0,"a3":0,"a4":0,"a5":0,"a6":0,"a7":0,"a8":0,"a9":0}`,
			[]string{"a0; a1; a2; a3; a4; a5; a6; a7; and 2 more"}},
		{"aliases", `{"x":1,"models":{"a":{"aliases":["c"]},"b":{"aliases":["c"]}}}`,
			[]string{"x"}},
		{"hosts", `{"allowHosts":["mac.lan:8080","mac.lan","*"]}`,
			[]string{`\"mac.lan:8080\"; \"*\"`}},
		{"origins", `{"allowOrigins":["null","app://obsidian.md","https://*"]}`,
			[]string{`\"null\"; \"https://*\"`}},
	} {
		dir := t.TempDir()
		writeFile(t, filepath.Join(dir, fileName), c.file)
		lines := logged(t, func() {
			f, err := Open(dir, nil)
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			f.CheckAccess(func(host string) bool { return host == "mac.lan" },
				func(origin string) bool { return origin == "app://obsidian.md" })
		})
		if len(lines) != len(c.which) {
			t.Errorf("%s: logs %q, want %d lines", c.name, lines, len(c.which))
			continue
		}
		for i, which := range c.which {
			if !strings.Contains(lines[i], "which="+quoted(which)) {
				t.Errorf("%s: logs %q, want %q", c.name, lines[i], which)
			}
		}
	}
}

// quoted returns a text as the log has it.
func quoted(text string) string {
	if strings.ContainsAny(text, " ") {
		return `"` + text + `"`
	}
	return text
}

// logged returns the lines that do logs.
func logged(t *testing.T, do func()) (lines []string) {
	t.Helper()
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)
	do()
	return strings.FieldsFunc(log.String(), func(r rune) bool { return r == '\n' })
}

// TestNoticedOnce: what was said is not said again until the settings say something else, whether
// this program or another one has changed them.
func TestNoticedOnce(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, fileName)
	writeFile(t, path, `{"version":2,"theme":1}`)
	var f *File
	allow := func(s *Settings) { s.AllowHosts = []string{"a:1"} }
	for _, c := range []struct {
		name  string
		do    func() error
		lines int
	}{
		{"open", func() (err error) {
			if f, err = Open(dir, nil); err == nil {
				f.CheckAccess(func(string) bool { return false }, nil)
			}
			return
		}, 1},
		{"a change", func() error { return f.Change(func(s *Settings) { s.Port = 81 }) }, 0},
		{"a host", func() error { return f.Change(allow) }, 1},
		{"another change", func() error { return f.Change(func(s *Settings) { s.Port = 82 }) }, 0},
		{"another program", func() error {
			writeFile(t, path, `{"version":2,"theme":1,"thema":2}`)
			f.checked = f.checked.Add(-2 * checkEvery)
			f.Get()
			return nil
		}, 1},
		{"reading again", func() error {
			f.checked = f.checked.Add(-2 * checkEvery)
			f.Get()
			return nil
		}, 0},
	} {
		if lines := logged(t, func() {
			if err := c.do(); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
		}); len(lines) != c.lines {
			t.Errorf("%s: logs %q, want %d lines", c.name, lines, c.lines)
		}
	}
}
