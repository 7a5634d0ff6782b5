package wired

import (
	"context"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"headroom/engine/problem"
)

// machine is a fake Mac whose limit follows the scripts that it runs.
type machine struct {
	Reading
	ran  []string
	fail error
}

func (m *machine) Read() (Reading, error) { return m.Reading, nil }

var setNumber = regexp.MustCompile(`sysctl iogpu\.wired_limit_mb=(\d+)`)

func (m *machine) Administrator(_ context.Context, script string) error {
	m.ran = append(m.ran, script)
	if m.fail != nil {
		return m.fail
	}
	m.LimitMB, _ = strconv.ParseInt(setNumber.FindStringSubmatch(script)[1], 10, 64)
	switch {
	case strings.Contains(script, "launchctl bootstrap"):
		m.PersistedMB = m.LimitMB
	case strings.Contains(script, "/bin/rm"):
		m.PersistedMB = 0
	}
	return nil
}

// TestSafeBytes compares with values worked out by hand. The system keeps an eighth of the memory,
// but at least 4 GiB and at most 8 GiB.
func TestSafeBytes(t *testing.T) {
	for total, want := range map[int64]int64{8: 4, 16: 12, 24: 20, 32: 28, 36: 31, 64: 56, 128: 120,
		512: 504, 2: 0} {
		if got := SafeBytes(total*gib) / gib; got != want {
			t.Errorf("SafeBytes of %d GiB is %d GiB, want %d", total, got, want)
		}
	}
}

// TestChange runs every action and checks the status after it.
func TestChange(t *testing.T) {
	m := &machine{Reading: Reading{TotalBytes: 64 * gib, RecommendedBytes: 48 * gib}}
	l := New(m, "")
	for _, c := range []struct {
		action                   Action
		requested                int64
		wantLimit, wantPersisted int64 // GiB
	}{
		{Set, 50 * gib, 50, 0},
		{Persist, 0, 56, 56}, // the safe limit
		{Set, 60 * gib, 60, 56},
		{Reset, 0, 0, 0},
	} {
		shown, err := l.Status(c.requested)
		if err != nil {
			t.Fatal(err)
		}
		got, err := l.Change(t.Context(), c.action, c.requested)
		if err != nil || got.LimitBytes != c.wantLimit*gib ||
			got.PersistedBytes != c.wantPersisted*gib || got.RecommendedBytes != 48*gib {
			t.Errorf("%s %d: %+v, %v; want a limit of %d GiB, %d persisted", c.action,
				c.requested, got, err, c.wantLimit, c.wantPersisted)
		}
		script := map[Action]string{Set: shown.Commands.Set, Persist: shown.Commands.Persist,
			Reset: shown.Commands.Reset}[c.action]
		if ran := m.ran[len(m.ran)-1]; ran != script {
			t.Errorf("%s: ran %q, the status showed %q", c.action, ran, script)
		}
	}
}

// TestResetRestores: Reset restores the limit from before Headroom's first change, also after a
// restart of Headroom. If somebody else has changed the limit since, it restores the default.
func TestResetRestores(t *testing.T) {
	path := filepath.Join(t.TempDir(), "settings", "wired-limit.json")
	m := &machine{Reading: Reading{TotalBytes: 64 * gib, LimitMB: 40000}}
	change := func(action Action, requested int64) Status {
		t.Helper()
		s, err := New(m, path).Change(t.Context(), action, requested)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	if s := change(Set, 50*gib); s.EarlierBytes != 40000*mib ||
		!strings.Contains(s.Commands.Reset, variable+"=40000 ") {
		t.Errorf("after the first change: %+v", s)
	}
	change(Persist, 52*gib)
	m.fail = ErrDeclined // a declined change forgets nothing
	if _, err := New(m, path).Change(t.Context(), Set, 55*gib); err == nil {
		t.Error("no error")
	}
	if m.fail = nil; m.LimitMB != 52*1024 {
		t.Fatalf("the limit is %d", m.LimitMB)
	}
	if s := change(Reset, 0); m.LimitMB != 40000 || s.EarlierBytes != 0 || s.PersistedBytes != 0 {
		t.Errorf("restored %d; %+v", m.LimitMB, s)
	}
	if change(Reset, 0); m.LimitMB != 0 { // Headroom has no change left to undo
		t.Errorf("the default is %d", m.LimitMB)
	}
	m.LimitMB = 30000
	change(Set, 50*gib)
	m.LimitMB = 45000 // by hand
	if s, err := New(m, path).Status(0); err != nil || s.EarlierBytes != 0 {
		t.Errorf("after a change by hand: %+v, %v", s, err)
	}
	change(Set, 50*gib)
	if change(Reset, 0); m.LimitMB != 45000 {
		t.Errorf("restored %d, want what was set by hand", m.LimitMB)
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err := New(m, path).Status(0); err != nil || s.EarlierBytes != 0 {
		t.Errorf("with a damaged file: %+v, %v", s, err)
	}
}

// TestRefused: an invalid limit runs nothing, and a declined dialog changes nothing.
func TestRefused(t *testing.T) {
	m := &machine{Reading: Reading{TotalBytes: 64 * gib}}
	l := New(m, "")
	for _, c := range []struct {
		action    Action
		requested int64
		want      string
	}{
		{Set, 63 * gib, "1 to 62 GB; up to 56 GB is safe"},
		{Persist, 1, "1 to 62 GB"},
		{Set, -5, "1 to 62 GB"},
		{"format", 8 * gib, "set, persist or reset"},
	} {
		if _, err := l.Change(t.Context(), c.action, c.requested); err == nil ||
			!strings.Contains(problem.From(err).Fix, c.want) {
			t.Errorf("%s %d: %v, want %q", c.action, c.requested, err, c.want)
		}
	}
	if len(m.ran) > 0 {
		t.Errorf("ran %q", m.ran)
	}
	m.fail = ErrDeclined
	if _, err := l.Change(t.Context(), Set, 0); problem.From(err).Code != problem.Cancelled {
		t.Errorf("declined: %v", err)
	}
	m.fail = errors.New("launchctl: no")
	if _, err := l.Change(t.Context(), Persist, 0); err == nil ||
		!strings.Contains(err.Error(), "launchctl: no") {
		t.Errorf("failed: %v", err)
	}
	m.UnavailableReason = "Not here"
	if s, err := l.Status(0); err != nil || s != (Status{UnavailableReason: "Not here"}) {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := l.Change(t.Context(), Set, 0); err == nil {
		t.Error("Change succeeds without a limit")
	}
}

// TestScripts runs the Persist script in a shell, with echo in place of the system's commands. The
// property list that it writes is well-formed.
func TestScripts(t *testing.T) {
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("there is no shell")
	}
	path := filepath.Join(t.TempDir(), "daemon.plist")
	script := strings.ReplaceAll(commands(56*1024, 0).Persist, daemonPath, path)
	for _, command := range []string{"/usr/sbin/sysctl i", "/usr/sbin/chown", "/bin/launchctl"} {
		script = strings.ReplaceAll(script, command, "echo "+filepath.Base(command))
	}
	script = strings.ReplaceAll(script, "/usr/bin/printf", "printf")
	out, err := exec.Command(shell, "-c", script).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if want := "bootstrap system " + path; !strings.Contains(string(out), want) {
		t.Errorf("printed %s, want %s", out, want)
	}
	text, err := os.ReadFile(path)
	if err != nil || string(text) != daemon(56*1024) {
		t.Errorf("wrote %q, %v", text, err)
	}
	for d := xml.NewDecoder(strings.NewReader(string(text))); ; {
		if _, err := d.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if got := persistedMB(path); got != 56*1024 {
		t.Errorf("persistedMB returns %d, want %d", got, 56*1024)
	}
	if got := persistedMB(filepath.Join(t.TempDir(), "none")); got != 0 {
		t.Errorf("persistedMB returns %d without a file", got)
	}
}

// TestAppleScript: quotes and backslashes are escaped.
func TestAppleScript(t *testing.T) {
	got := appleScript(`printf '"\n"'`)
	if want := `do shell script "printf '\"\\n\"'" with prompt`; !strings.HasPrefix(got, want) {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestHere reads the limit of this machine.
func TestHere(t *testing.T) {
	s, err := New(Here(), "").Status(0)
	if err != nil || s.UnavailableReason == "" && s.SafeBytes == 0 {
		t.Errorf("%+v, %v", s, err)
	}
}

func FuzzPersistedMB(f *testing.F) {
	f.Add([]byte(daemon(1024)))
	f.Add([]byte("iogpu.wired_limit_mb=99999999999999999999<"))
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(t.TempDir(), "daemon.plist")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if got := persistedMB(path); got < 0 {
			t.Errorf("%q: %d", text, got)
		}
	})
}
