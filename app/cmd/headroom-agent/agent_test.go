package main

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"headroom/app/control"
	"headroom/app/host"
	"headroom/app/settings"
)

// TestOneAgent: a second claim fails until the first is released.
func TestOneAgent(t *testing.T) {
	dir := t.TempDir()
	first, err := claim(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := claim(dir); !errors.Is(err, errClaimed) {
		t.Fatalf("the second claim: %v, want errClaimed", err)
	}
	first.release()
	again, err := claim(dir)
	if err != nil {
		t.Fatalf("after the first was released: %v", err)
	}
	again.release()
}

// TestShowFirst: showFirst asks the running agent to show its window.
func TestShowFirst(t *testing.T) {
	dir := t.TempDir()
	token, err := control.LoadToken(dir)
	if err != nil {
		t.Fatal(err)
	}
	var requests []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(control.TokenHeader) != token {
			t.Error("a request without the token")
		}
		requests = append(requests, r.Method+" "+r.URL.Path)
		w.WriteHeader(http.StatusNoContent)
	}))
	defer server.Close()
	first, err := claim(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer first.release()
	if err := first.announce(server.URL + "/"); err != nil {
		t.Fatal(err)
	}
	if err := showFirst(dir); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(requests, ", "); got != "POST /control/window/show" {
		t.Errorf("the requests are %s", got)
	}
}

func TestAddressOfFirst(t *testing.T) {
	cases := []struct{ file, want, wantErr string }{
		{"http://127.0.0.1:1/\n", "http://127.0.0.1:1/", ""},
		{"", "", "names no address"},
		{"http://example.org/", "", "names no address"},
	}
	for _, c := range cases {
		dir := t.TempDir()
		if err := os.WriteFile(lockPath(dir), []byte(c.file), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := addressOfFirst(dir)
		if c.wantErr == "" && (err != nil || got != c.want) || c.wantErr != "" &&
			(err == nil || !strings.Contains(err.Error(), c.wantErr)) {
			t.Errorf("%q: %q, %v", c.file, got, err)
		}
	}
}

func TestNoteState(t *testing.T) {
	at := func(status host.Status, model string) host.EngineState {
		return host.EngineState{Status: status, Model: model}
	}
	saved := settings.Settings{Model: "old", EngineOn: true,
		Recent: []string{"old", "new", "3", "4", "5", "6", "7", "8"}}
	cases := []struct {
		name        string
		before, now host.EngineState
		model       string
		on          bool
	}{
		{"at the start", host.EngineState{}, at(host.Stopped, ""), "old", true},
		{"loading changes nothing", at(host.Stopped, ""), at(host.Loading, "new"), "old", true},
		{"ready", at(host.Loading, "new"), at(host.Ready, "new"), "new", true},
		{"busy right after stopped", at(host.Stopped, ""), at(host.Busy, "new"), "new", true},
		{"stopped", at(host.Ready, "old"), at(host.Stopped, ""), "old", false},
		{"stopped while loading", at(host.Loading, "new"), at(host.Stopped, ""), "old", false},
		{"an idle unload is not a stop", at(host.Ready, "new"), at(host.IdleUnloaded, "new"), "new",
			true},
		{"failed", at(host.Loading, "new"), at(host.Failed, "new"), "old", true},
		{"loaded for a request", at(host.Ready, "old"),
			host.EngineState{Status: host.Ready, Model: "new", Requested: true}, "old", true},
	}
	for _, c := range cases {
		s := saved
		s.Recent = slices.Clone(saved.Recent)
		noteState(&s, c.before, c.now)
		if s.Model != c.model || s.EngineOn != c.on {
			t.Errorf("%s: model %s, on %v; want %s, %v", c.name, s.Model, s.EngineOn, c.model, c.on)
		}
		if s.Recent[0] != c.model || len(s.Recent) != 8 {
			t.Errorf("%s: the recent models are %q", c.name, s.Recent)
		}
	}
}

// TestForeignLockFile: claim empties only a file that holds an agent's address.
func TestForeignLockFile(t *testing.T) {
	for text, ours := range map[string]bool{"": true, addressPrefix + "1/\n": true, "x": false,
		"a diary\n": false} {
		dir := t.TempDir()
		if err := os.WriteFile(lockPath(dir), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		first, err := claim(dir)
		if (err == nil) != ours {
			t.Errorf("%q: %v", text, err)
		}
		if err == nil {
			first.release()
			text = ""
		}
		if left, err := os.ReadFile(lockPath(dir)); err != nil || string(left) != text {
			t.Errorf("the file has %q, %v; want %q", left, err, text)
		}
	}
	dir, elsewhere := t.TempDir(), filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(elsewhere, []byte(addressPrefix), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(elsewhere, lockPath(dir)); err != nil {
		t.Fatal(err)
	}
	if _, err := claim(dir); err == nil || !strings.Contains(err.Error(), lockPath(dir)) {
		t.Errorf("claim follows a link: %v", err)
	}
	pipe := t.TempDir()
	if err := syscall.Mkfifo(lockPath(pipe), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := claim(pipe); err == nil { // it waits for nobody
		t.Error("claim uses a pipe")
	}
	if _, err := addressOfFirst(pipe); err == nil {
		t.Error("a pipe names an agent")
	}
	if text, err := os.ReadFile(elsewhere); err != nil || string(text) != addressPrefix {
		t.Errorf("the target of a link has %q, %v", text, err)
	}
}
