package settings

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestKeySurvives: no damage to the file opens the endpoint. The key stays, or an unknown one
// applies; and the same holds for the next start after a change.
func TestKeySurvives(t *testing.T) {
	const key = "secret \"1\""
	closed := func(got string) bool { return len(got) >= 26 && got != key }
	for _, c := range []struct {
		name, file string
		unknown    bool // the key is lost, so that a random one applies
	}{
		{"wrong type", `{"apiKey":"secret \"1\"","restMinutes":"5"}`, false},
		{"fraction", `{"apiKey":"secret \"1\"","idleUnloadMinutes":5.5}`, false},
		{"wrong type within", `{"cache":{"maxSize":"lots"},"apiKey":"secret \"1\""}`, false},
		{"a list for an object", `{"cache":[],"models":[],"apiKey":"secret \"1\""}`, false},
		{"two keys", `{"apiKey":"another","apiKey" : "secret \"1\"",}`, true},
		{"a key in a comment", "{\n// \"apiKey\":\"old\"\n}", true},
		{"another one in a comment", `{"apiKey":"new", // "apiKey":"secret \"1\""` + "\n}", true},
		{"within a comment", `{/* "apiKey":"old", */}`, true},
		{"a flipped bit", "{\"version\":2,\"\xe1piKey\":\"secret\"}", true},
		{"a misspelt name in damaged text", `{"apiKe9":"secret \"1\"",}`, true},
		{"a misspelt name", `{"apiKe9":"secret \"1\""}`, true},
		{"another misspelt name", `{"api_key":"secret \"1\""}`, true},
		{"a model's", `{"models":{"m":{"apiKey":"secret \"1\""}},}`, true},
		{"after the object's end", `{"port":80},"apiKey":"secret \"1\""}`, true},
		{"no quote at its end", `{"apiKey":"secret \"1\","logLevel":"info"}`, true},
		{"no header can have it", `{"apiKey":" k "}`, true},
		{"trailing comma", `{"apiKey" : "secret \"1\"",}`, false},
		{"cut off", `{"apiKey":"secret \"1\"","port":11`, false},
		{"cut off within the key", `{"port":11811,"apiKey":"secr`, true},
		{"not a text", `{"apiKey":5}`, true},
		{"in capitals, not a text", `{"APIKEY":["secret"]}`, true},
		{"two documents", `{"apiKey":"secret \"1\""}{}`, false},
		{"empty", "", true},
		{"zeros", strings.Repeat("\x00", 300), true},
		{"UTF-16", "\xff\xfe{\x00\"\x00a\x00p\x00i\x00K\x00e\x00y\x00", true},
		{"cut off before the key", `{"version":2,`, true},
		{"null", "null", true},
		{"a list", "[]", true},
		{"cut off after an object", `{"cache":{"maxSize":"1GB"}`, true},
		{"cut off after a quote", `{"model":"a}","recent":["}`, true},
		{"a key in escapes", `{"\u0061piKey":"k",}`, true},
		{"a missing quote", `{"api\"Key:"k"}`, true},
		{"zeros within", `{"port":80,` + "\x00\x00" + `}`, true},
		{"after the object", `{"port":80},"b":{}`, true},
		{"deep", strings.Repeat("[", 100_000), true},
		{"twice", `{"apiKey":"","APIKEY":"secret \"1\""}`, true},
		{"twice, empty", `{"apiKey":"secret \"1\"","apiKey":""}`, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, fileName)
			writeFile(t, path, c.file)
			f, err := Open(dir, nil)
			got := f.Get().APIKey
			if err == nil || c.unknown && !closed(got) || !c.unknown && got != key {
				t.Errorf("key %q, error %v", got, err)
			}
			if data, _ := os.ReadFile(path); string(data) != c.file {
				t.Errorf("opening it made %q of the file", data)
			}
			if err := f.Change(func(s *Settings) { s.Port = 80 }); err != nil {
				t.Error(err)
			}
			if data, _ := os.ReadFile(path + ".damaged-1"); string(data) != c.file {
				t.Errorf("the copy is %q", data)
			}
			again, err := Open(dir, nil)
			if now := again.Get(); err != nil || now.APIKey != got || now.Port != 80 {
				t.Errorf("next start: key %q, port %d, %v", now.APIKey, now.Port, err)
			}
		})
	}
}

// TestWholeFileWithoutKey: damage to a file that is whole and names no key loses none. No start
// replaces it, and once it is repaired it applies within a second, without a restart.
func TestWholeFileWithoutKey(t *testing.T) {
	for _, c := range []struct{ file, where string }{
		{"{\n\"port\": 80,\n}\n", "line 3"},
		{"{\"port\": 80 // mine\n}", "line 1"},
		{`{"cache": {"maxSize": "1GB"} "port": 80, "noApiKey": true}`, "line 1"},
		{`{"model": "a\"}", "port" 80}`, "line 1"},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, fileName)
		writeFile(t, path, c.file)
		var files [2]*File
		for i := range files {
			f, err := Open(dir, nil)
			if s := f.Get(); err == nil || !strings.Contains(err.Error(), c.where) ||
				s.APIKey != "" {
				t.Errorf("%s: key %q, error %v, want it at %s", c.file, s.APIKey, err, c.where)
			}
			if err := f.Note(func(s *Settings) { s.Model = "m" }); err != nil {
				t.Error(err)
			}
			files[i] = f
		}
		if data, _ := os.ReadFile(path); string(data) != c.file || len(files[0].Copies()) > 0 {
			t.Errorf("%s: the file is %q now, copies %q", c.file, data, files[0].Copies())
		}
		writeFile(t, path, `{"port": 81}`)
		files[0].checked = time.Time{}
		if s := files[0].Get(); s.Port != 81 || s.APIKey != "" {
			t.Errorf("%s: repaired: port %d, key %q", c.file, s.Port, s.APIKey)
		}
	}
}

// TestDamagedWhileRunning: a server without a key runs while its file is damaged. What may be a key
// applies once the file has stayed as it is for a second; a file that names none opens and closes
// nothing. The log names the file once. The next change keeps the key, and a copy of the text.
func TestDamagedWhileRunning(t *testing.T) {
	for _, c := range []struct {
		text string
		key  string // "?": a random one
	}{
		{`{"apiKey":"sk-new",}`, "sk-new"},
		{`{"apiKey":"sk-new`, "?"},
		{`{"apiKey":"sk-new" // mine` + "\n}", "sk-new"},
		{``, "?"},
		{`{"logLevel":"info",}`, ""},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, fileName)
		f, err := Open(dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		look := func() Settings {
			f.checked = time.Time{}
			return f.Get()
		}
		var log bytes.Buffer
		before := slog.Default()
		slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
		writeFile(t, path, c.text)
		if s := look(); s.APIKey != "" {
			t.Errorf("%q: key %q while it may be written", c.text, s.APIKey)
		}
		fits := func(key string) bool {
			return key == c.key || c.key == "?" && strings.HasPrefix(key, lostKey)
		}
		for range 3 {
			if s := look(); !fits(s.APIKey) {
				t.Errorf("%q: key %q", c.text, s.APIKey)
			}
		}
		slog.SetDefault(before)
		if n := strings.Count(log.String(), "settings file is damaged; what"); n != 1 {
			t.Errorf("%q: the log names it %d times: %s", c.text, n, log.String())
		}
		if err := f.Change(func(s *Settings) { s.Port = 80 }); err != nil {
			t.Error(err)
		}
		again, err := Open(dir, nil)
		if s := again.Get(); err != nil || !fits(s.APIKey) || s.Port != 80 {
			t.Errorf("%q: after a change: key %q, port %d, %v", c.text, s.APIKey, s.Port, err)
		}
		if copied, _ := os.ReadFile(path + ".damaged-1"); string(copied) != c.text {
			t.Errorf("%q: the copy has %q", c.text, copied)
		}
	}
}

// TestRemovedWhileRunning: a file with a key that is removed while Headroom runs is written again.
func TestRemovedWhileRunning(t *testing.T) {
	for _, key := range []string{"k", ""} {
		dir := t.TempDir()
		path := filepath.Join(dir, fileName)
		f, _ := Open(dir, nil)
		if err := f.Change(func(s *Settings) { s.APIKey, s.Port = key, 80 }); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		f.checked = time.Time{}
		f.Get()
		again, err := Open(dir, nil)
		if s := again.Get(); err != nil || s.APIKey != key {
			t.Errorf("key %q at the next start, want %q, %v", s.APIKey, key, err)
		}
	}
}

// TestLink: a link in the place of the file stays, and the file that it leads to is replaced.
func TestLink(t *testing.T) {
	dir := t.TempDir()
	path, target := filepath.Join(dir, fileName), filepath.Join(t.TempDir(), "dotfile.json")
	writeFile(t, target, `{"port":80}`)
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
	f, err := Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Change(func(s *Settings) { s.APIKey = "k" }); err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(path)
	if text, _ := os.ReadFile(target); err != nil || info.Mode()&os.ModeSymlink == 0 ||
		!strings.Contains(string(text), `"k"`) {
		t.Errorf("mode %v, the target has %s, %v", info.Mode(), text, err)
	}
}

// TestOpeningWritesNothing: also of a file with values that make no sense.
func TestOpeningWritesNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, fileName)
	const text = `{"port":"x","apiKey":"k"}`
	writeFile(t, path, text)
	f, err := Open(dir, nil)
	list, _ := os.ReadDir(dir)
	if data, _ := os.ReadFile(path); err == nil || string(data) != text || len(list) != 1 {
		t.Errorf("the file is %s, the folder has %v, %v", data, list, err)
	}
	if err := f.Change(func(s *Settings) { s.Port = 80 }); err != nil {
		t.Error(err)
	}
	if data, _ := os.ReadFile(path + ".damaged-1"); string(data) != text {
		t.Errorf("the copy has %s", data)
	}
}

// TestRepaired: a random key applies as long as the file is damaged. The repaired file says what
// the key is, also that there is none; but a key that cannot be read closes the endpoint.
func TestRepaired(t *testing.T) {
	for _, c := range []struct {
		damaged, repaired, key string
		lost                   bool
	}{
		{`{"port": 80,`, `{"port": 81}`, "", false},
		{`{"port": 80,`, `{"port": 81, "apiKey": "k"}`, "k", false},
		{`{"port": 80,`, `{"port": 81, "apiKey": 5}`, "", true},
		{`{"port": 80, "apiKey": 5}`, `{"port": 81}`, "", false},
		{`{"port": 80, "api_key": "k"}`, `{"port": 81, "apiKey": "k"}`, "k", false},
	} {
		for _, running := range []bool{false, true} {
			dir := t.TempDir()
			path := filepath.Join(dir, fileName)
			var f *File
			if running {
				f, _ = Open(dir, nil)
			}
			writeFile(t, path, c.damaged)
			if !running {
				f, _ = Open(dir, nil)
			}
			for range 2 {
				f.checked = time.Time{}
				f.Get()
			}
			if s := f.Get(); !s.KeyLost() {
				t.Errorf("%s: key %q", c.damaged, s.APIKey)
			}
			if text, _ := os.ReadFile(path); string(text) != c.damaged {
				t.Errorf("%s: it was replaced by %s", c.damaged, text)
			}
			writeFile(t, path, c.repaired)
			f.checked = time.Time{}
			if s := f.Get(); s.KeyLost() != c.lost || !c.lost && s.APIKey != c.key ||
				s.Port != 81 {
				t.Errorf("%s: key %q, port %d", c.repaired, s.APIKey, s.Port)
			}
		}
	}
}

// TestKnownKeyStays: a program that found the file damaged writes a random key. One that runs, and
// has read the key before, puts it back.
func TestKnownKeyStays(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, fileName)
	writeFile(t, path, `{"apiKey": "k"}`)
	server, _ := Open(dir, nil)
	writeFile(t, path, `{"port": 80,`)
	command, _ := Open(dir, nil)
	if err := command.Change(func(s *Settings) { s.Model = "m" }); err != nil {
		t.Fatal(err)
	}
	for _, f := range []*File{server, command} {
		f.checked = time.Time{}
		if s := f.Get(); s.APIKey != "k" || s.Model != "m" {
			t.Errorf("key %q, model %q", s.APIKey, s.Model)
		}
	}
}

// TestUnreadableFile: a file that cannot be read may have a key. So the endpoint stays closed, and
// the file is not overwritten.
func TestUnreadableFile(t *testing.T) {
	dir := t.TempDir()
	text := `{"apiKey":"k"}` + strings.Repeat(" ", maxBytes)
	writeFile(t, filepath.Join(dir, fileName), text)
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	f, err := Open(dir, nil)
	slog.SetDefault(before)
	if err == nil || f.Get().APIKey == "" {
		t.Errorf("key %q, error %v", f.Get().APIKey, err)
	}
	// A key that is set in Settings could not be saved.
	if s := log.String(); !strings.Contains(s, "repair or remove") ||
		strings.Contains(s, "in Settings") {
		t.Errorf("the log says %s", s)
	}
	if err := f.Change(func(s *Settings) { s.Port = 80 }); err == nil {
		t.Error("a change was written")
	}
	if data, _ := os.ReadFile(filepath.Join(dir, fileName)); string(data) != text {
		t.Errorf("the file is now %.100s", data)
	}
}

// TestNoRegularFile: a pipe, or a link to nothing, in the place of the file closes the endpoint. A
// start does not wait for the pipe.
func TestNoRegularFile(t *testing.T) {
	for name, create := range map[string]func(path string) error{
		"pipe":   func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"link":   func(path string) error { return os.Symlink(path+".missing", path) },
		"device": func(path string) error { return os.Symlink(os.DevNull, path) },
	} {
		dir := t.TempDir()
		if err := create(filepath.Join(dir, fileName)); err != nil {
			t.Fatal(err)
		}
		for range 2 { // also at the next start
			if f, err := Open(dir, nil); err == nil || f.Get().APIKey == "" {
				t.Errorf("%s: key %q, error %v", name, f.Get().APIKey, err)
			}
		}
	}
}

// TestKeyOfRunningServer: a running program keeps its key if the file loses it, and writes it back.
// Only a change by a Headroom removes it, also from other programs.
func TestKeyOfRunningServer(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, fileName)
	f, _ := Open(dir, nil)
	other, _ := Open(dir, nil)
	if err := f.Change(func(s *Settings) { s.APIKey = "k" }); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{`{"apiKex":"k"}`, `{"apiKey":"k","apiKey":""}`, `{"apikey":""}`,
		`{}`, `{"apiKey":null}`} {
		for _, get := range []bool{true, false} {
			writeFile(t, path, text)
			f.checked = time.Time{}
			if get && f.Get().APIKey != "k" {
				t.Errorf("%s: the key is gone", text)
			}
			if err := f.Change(func(s *Settings) { s.IdleUnloadMinutes++ }); err != nil {
				t.Error(err)
			}
			again, err := Open(dir, nil)
			if got := again.Get().APIKey; f.Get().APIKey != "k" || got != "k" || err != nil {
				t.Errorf("%s: key %q, at the next start %q, %v", text, f.Get().APIKey, got, err)
			}
		}
	}
	for _, key := range []string{"k", ""} {
		if err := f.Change(func(s *Settings) { s.APIKey = key }); err != nil {
			t.Fatal(err)
		}
		other.checked = time.Time{}
		if got := other.Get().APIKey; got != key {
			t.Errorf("another program has the key %q, want %q", got, key)
		}
	}
}

// TestTwoPrograms: programs that use one file keep each other's fields, whatever the order of their
// changes, and notice them.
func TestTwoPrograms(t *testing.T) {
	dir := t.TempDir()
	var files [4]*File
	for i := range files {
		var err error
		if files[i], err = Open(dir, nil); err != nil {
			t.Fatal(err)
		}
	}
	var programs sync.WaitGroup
	var failed [len(files)]error
	for i, f := range files {
		programs.Go(func() {
			for n := range 20 {
				failed[i] = errors.Join(failed[i], f.Change(func(s *Settings) {
					s.AllowHosts = append(s.AllowHosts, fmt.Sprintf("%d.%d", i, n))
				}))
			}
		})
	}
	programs.Wait()
	if err := files[0].Change(func(s *Settings) { s.APIKey = "k" }); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(failed[:]...); err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		f.checked = time.Time{} // as if a second had passed
		if s := f.Get(); s.APIKey != "k" || len(s.AllowHosts) != 80 {
			t.Errorf("key %q, %d of 80 hosts", s.APIKey, len(s.AllowHosts))
		}
	}
	// A file that another program has damaged changes nothing, and is not replaced by what Headroom
	// remembers.
	path := filepath.Join(dir, fileName)
	writeFile(t, path, `{"apiKey":`)
	files[1].checked = time.Time{}
	err := files[1].Note(func(s *Settings) { s.Model = "m" })
	if s := files[1].Get(); s.APIKey != "k" || err != nil {
		t.Errorf("key %q after damage, %v", s.APIKey, err)
	}
	if data, _ := os.ReadFile(path); string(data) != `{"apiKey":` {
		t.Errorf("the damaged file is %q now", data)
	}
}

// TestChangeIsRetried: a change that could not be written takes effect, and the next change writes
// it too.
func TestChangeIsRetried(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "settings")
	f, err := Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, dir, "in the way")
	if err := f.Change(func(s *Settings) { s.APIKey = "k" }); err == nil {
		t.Error("no error")
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if err := f.Change(func(s *Settings) { s.Port = 80 }); err != nil {
		t.Fatal(err)
	}
	again, err := Open(dir, nil)
	if s := again.Get(); err != nil || s.APIKey != "k" || s.Port != 80 {
		t.Errorf("key %q, port %d, %v", s.APIKey, s.Port, err)
	}
}

// TestDamagedByAnotherProgram: while a program runs, another one damages the file. The values that
// make sense apply, the key stays, and a change overwrites no text that was not understood without
// a copy. No copy replaces another.
func TestDamagedByAnotherProgram(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, fileName)
	writeFile(t, path+".damaged-1", "an earlier copy")
	f, err := Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Change(func(s *Settings) { s.APIKey = "k" }); err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		text  string
		hosts []string
	}{
		{`{"apiKey":5,"allowHosts":["a"],"port":"x"}`, []string{"a"}},
		{`{"apiKey":"k","allowHosts":["b"],"idleUnloadMinutes":"5"}`, []string{"b"}},
		{`{"apiKey":`, []string{"b"}},
		{`{"apiKey":"k","allowHosts":["b"],"idleUnloadMinutes":"5"}`, []string{"b"}},
	} {
		writeFile(t, path, c.text)
		f.checked = time.Time{}
		if s := f.Get(); s.APIKey != "k" || !slices.Equal(s.AllowHosts, c.hosts) {
			t.Errorf("%s: key %q, hosts %q", c.text, s.APIKey, s.AllowHosts)
		}
		if err := f.Change(func(s *Settings) { s.Port = 80 + i }); err != nil {
			t.Errorf("%s: %v", c.text, err)
		}
		again, err := Open(dir, nil)
		if s := again.Get(); err != nil || s.APIKey != "k" || s.Port != 80+i {
			t.Errorf("%s: next start: key %q, port %d, %v", c.text, s.APIKey, s.Port, err)
		}
		if copied, err := os.ReadFile(fmt.Sprintf("%s.damaged-%d", path, i+2)); i < 3 &&
			(err != nil || string(copied) != c.text) {
			t.Errorf("%s: the copy has %q, %v", c.text, copied, err)
		}
	}
	copies, err := filepath.Glob(path + ".damaged-*")
	if text, _ := os.ReadFile(path + ".damaged-1"); len(copies) != 4 || err != nil ||
		string(text) != "an earlier copy" {
		t.Errorf("%d copies, %v; the first has %q", len(copies), err, text)
	}
	for _, copied := range copies[1:] {
		if info, err := os.Stat(copied); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", copied, info.Mode(), err)
		}
	}
}

// TestTemporaryIsRemoved: Open removes the temporary files of killed programs, which have the key.
func TestTemporaryIsRemoved(t *testing.T) {
	dir := t.TempDir()
	left := filepath.Join(dir, "."+fileName+"123456789")
	writeFile(t, left, "{")
	past := time.Now().Add(-time.Hour)
	if err := os.Chtimes(left, past, past); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, nil); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(left); err == nil {
		t.Error("it is left")
	}
}

// TestCopies: the copies of damaged settings and unfinished files are found, and nothing else.
func TestCopies(t *testing.T) {
	dir := t.TempDir()
	f, err := Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{".settings.json815", "settings.json.damaged-1", "settings.json.damaged-12"}
	for _, name := range append(want, "settings.json", "settings.json.damaged-old",
		"settings.json.damaged-0", "my settings.json.damaged-1", ".settings.json") {
		writeFile(t, filepath.Join(dir, name), "{}")
	}
	if err := os.Mkdir(filepath.Join(dir, "settings.json.damaged-2"), 0o700); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, path := range f.Copies() {
		got = append(got, filepath.Base(path))
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
