package machines

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zalando/go-keyring"

	"headroom/engine/problem"
)

func open(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func add(t *testing.T, s *Store, m Machine, secret string) Machine {
	t.Helper()
	m, err := s.Add(m, secret)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// withKeychain gives the test an empty keychain, or none.
func withKeychain(t *testing.T, has bool) {
	t.Helper()
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nowhere")
	keyring.MockInit()
	if !has {
		keyring.MockInitWithError(errors.New("there is no keychain"))
	}
}

// TestMachines: a machine is in every store of the folder, also one that is opened later, until it
// is removed, and so is its API key.
func TestMachines(t *testing.T) {
	for name, has := range map[string]bool{"keychain": true, "file": false} {
		t.Run(name, func(t *testing.T) {
			withKeychain(t, has)
			dir := filepath.Join(t.TempDir(), "new")
			s, other := open(t, dir), open(t, dir)
			if len(s.List()) != 0 {
				t.Error("there are machines in a new folder")
			}
			m := add(t, s, Machine{Kind: Headroom, URL: "studio.local:11811/v1/"}, " sk-1 ")
			cloud := add(t, other, Machine{Name: "cloud", Kind: OpenAI,
				URL: "https://Example.com/api/v1/", Models: []string{"b", "a", "b"}}, "")
			if m.URL != "http://studio.local:11811" || m.Name != "studio" || !m.HasSecret ||
				cloud.URL != "https://example.com/api/v1" || cloud.HasSecret {
				t.Errorf("added %+v and %+v", m, cloud)
			}
			for i, store := range []*Store{s, other, open(t, dir)} {
				if got := store.List(); !reflect.DeepEqual(got, []Machine{m, cloud}) {
					t.Fatalf("store %d: %+v", i, got)
				}
				if got, err := store.Secret(m); got != "sk-1" || err != nil {
					t.Errorf("store %d: the key %q, %v", i, got, err)
				}
				if got, err := store.Secret(cloud); got != "" || err != nil {
					t.Errorf("store %d: the cloud's key %q, %v", i, got, err)
				}
				if got, err := store.Named("STUDIO"); err != nil || got.ID != m.ID {
					t.Errorf("store %d: %+v, %v", i, got, err)
				}
			}
			text, _ := os.ReadFile(filepath.Join(dir, fileName))
			if strings.Contains(string(text), "sk-1") {
				t.Error("the list has the key")
			}
			_, err := os.Stat(filepath.Join(dir, secretsName))
			if (err == nil) == has {
				t.Errorf("the file of keys: %v", err)
			}
			// The same machine with another key, as after pairing again.
			m.Name = "desk"
			add(t, other, m, "sk-2")
			s.List()
			if got, err := s.Secret(m); got != "sk-2" || err != nil {
				t.Errorf("the key %q, %v after it was replaced", got, err)
			}
			if _, err := s.Remove("desk"); err != nil {
				t.Fatal(err)
			}
			if got := other.List(); len(got) != 1 || got[0].ID != cloud.ID {
				t.Errorf("%+v after removing one", got)
			}
			if got, err := open(t, dir).Secret(m); got != "" || problem.From(err).Code !=
				problem.Locked {
				t.Errorf("the key %q, %v after removing its machine", got, err)
			}
		})
	}
}

func TestSet(t *testing.T) {
	withKeychain(t, true)
	s := open(t, t.TempDir())
	m := add(t, s, Machine{Name: "a", Kind: OpenAI, URL: "http://h:1"}, "key")
	add(t, s, Machine{Name: "b", Kind: OpenAI, URL: "http://h:2"}, "")
	m.Off, m.HasSecret, m.Name = true, false, "c"
	if err := s.Set(m); err != nil {
		t.Fatal(err)
	}
	if got, _ := s.Named("c"); !got.Off || !got.HasSecret {
		t.Errorf("stored %+v", got)
	}
	m.HasSecret = true
	other := open(t, s.dir)
	for _, key := range []string{"first", "second"} {
		if err := s.SetSecret(m.ID, " "+key+"\n"); err != nil {
			t.Fatal(err)
		}
		other.List()
		if got, err := other.Secret(m); got != key || err != nil {
			t.Errorf("another process has the key %q, %v, want %q", got, err, key)
		}
		if got, err := s.Secret(m); got != key || err != nil {
			t.Errorf("the key %q, %v, want %q", got, err, key)
		}
	}
	if err := s.SetSecret(m.ID, "a b"); problem.From(err).Code != problem.BadRequest {
		t.Errorf("took a key that no request can send: %v", err)
	}
	if err := s.SetSecret(m.ID, ""); err != nil {
		t.Fatal(err)
	}
	if got, _ := s.Named("c"); got.HasSecret || !got.Off {
		t.Errorf("stored %+v without its key", got)
	}
	m.Name = "B"
	if err := s.Set(m); problem.From(err).Code != problem.Exists {
		t.Errorf("took the name of another machine: %v", err)
	}
}

// TestFailedWrites: a list that cannot be written leaves list and keys as they were.
func TestFailedWrites(t *testing.T) {
	for name, has := range map[string]bool{"keychain": true, "file": false} {
		t.Run(name, func(t *testing.T) {
			withKeychain(t, has)
			dir := t.TempDir()
			s := open(t, dir)
			a := add(t, s, Machine{Name: "a", Kind: OpenAI, URL: "http://h:1"}, "old")
			b := add(t, s, Machine{Name: "b", Kind: OpenAI, URL: "http://h:2"}, "")
			never := time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC) // JSON has no such time
			s.now = func() time.Time { return never }
			for what, change := range map[string]func() error{
				"another key": func() error { _, err := s.Add(a, "new"); return err },
				"no key":      func() error { _, err := s.Add(a, ""); return err },
				"a first key": func() error { _, err := s.Add(b, "new"); return err },
				"a machine": func() error {
					_, err := s.Add(Machine{ID: "c", Kind: OpenAI, URL: "http://h:3"}, "new")
					return err
				},
				"a removal": func() error {
					defer func(before time.Time) { s.list[1].Added = before }(s.list[1].Added)
					s.list[1].Added = never
					_, err := s.Remove("a")
					return err
				},
			} {
				if err := change(); err == nil || !strings.Contains(err.Error(), "not be saved") {
					t.Fatalf("%s: %v", what, err)
				}
				for i, store := range []*Store{s, open(t, dir)} {
					if got := store.List(); !reflect.DeepEqual(got, []Machine{a, b}) {
						t.Errorf("%s: store %d has %+v", what, i, got)
					}
					if got, err := store.Secret(a); got != "old" || err != nil {
						t.Errorf("%s: store %d has the key %q, %v", what, i, got, err)
					}
					for _, id := range []string{b.ID, "c"} {
						got, err := store.Secret(Machine{ID: id, HasSecret: true})
						if err == nil {
							t.Errorf("%s: store %d has the key %q of %s", what, i, got, id)
						}
					}
				}
			}
			s.now = time.Now
			if _, err := s.Remove("a"); err != nil {
				t.Fatal(err)
			}
			if got, err := s.Secret(a); err == nil {
				t.Errorf("the removed machine has the key %q", got)
			}
		})
	}
}

// TestWithPort: only the name of a host alone gets the port of a Headroom.
func TestWithPort(t *testing.T) {
	for _, c := range []struct {
		kind       Kind
		give, want string
	}{
		{"", "127.0.0.1", "127.0.0.1:11811"}, {Headroom, " studio.local ", "studio.local:11811"},
		{"", "[::1]", "[::1]:11811"}, {"", "h:80", "h:80"}, {"", "h:", "h:"},
		{"", "http://h", "http://h"}, {"", "h/v1", "h/v1"}, {OpenAI, "h", "h"},
		{"", "a b", "a b"}, {"", "", ""}, {"", "me@h", "me@h"},
	} {
		if got := WithPort(c.kind, c.give); got != c.want {
			t.Errorf("%q: %q, want %q", c.give, got, c.want)
		}
	}
}

// TestWrongMachines: what cannot be used is refused with a sentence about that.
func TestWrongMachines(t *testing.T) {
	withKeychain(t, false)
	s := open(t, t.TempDir())
	add(t, s, Machine{Name: "Studio", Kind: Headroom, URL: "http://a"}, "")
	sum := strings.Repeat("ab", 32)
	for _, c := range []struct {
		m            Machine
		secret, want string
	}{
		{Machine{URL: "http://a"}, "", "is not a kind"},
		{Machine{Kind: "ollama", URL: "http://a"}, "", "is not a kind"},
		{Machine{Kind: OpenAI}, "", "has no host name"},
		{Machine{Kind: OpenAI, URL: "ftp://a"}, "", "begins with ftp"},
		{Machine{Kind: OpenAI, URL: "http://u:p@a"}, "", "user name"},
		{Machine{Kind: OpenAI, URL: "http://a?key=1"}, "", "after ?"},
		{Machine{Kind: OpenAI, URL: "http://a\x00"}, "", "not the address"},
		{Machine{Kind: OpenAI, URL: "http://" + strings.Repeat("a", 600)}, "", "too long"},
		{Machine{Kind: Headroom, URL: "http://a/x"}, "", "has no path"},
		{Machine{Kind: Headroom, URL: "http://a", Name: "a@b"}, "", "characters"},
		{Machine{Kind: Headroom, URL: "http://a", Name: "a\x07"}, "", "printed"},
		{Machine{Kind: Headroom, URL: "http://a", Name: strings.Repeat("a", 65)}, "", "too long"},
		{Machine{Kind: Headroom, URL: "http://a", Name: "studio"}, "", "already"},
		{Machine{Kind: Headroom, URL: "https://a", Certificate: "ab"}, "", "64 hexadecimal"},
		{Machine{Kind: Headroom, URL: "http://a", Certificate: sum}, "", "https address"},
		{Machine{Kind: Headroom, URL: "http://a", ID: "a b"}, "", "not the ID"},
		{Machine{Kind: Headroom, URL: "http://a"}, "a b", "no request can send it"},
	} {
		if _, err := s.Add(c.m, c.secret); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.m, err, c.want)
		}
	}
	if n := len(s.List()); n != 1 {
		t.Errorf("%d machines", n)
	}
	if _, err := s.Remove("laptop"); err == nil || !strings.Contains(err.Error(),
		"The machines are Studio.") {
		t.Error(err)
	}
}

// TestDamage: a file that cannot be read means no machines, and it is not replaced.
func TestDamage(t *testing.T) {
	withKeychain(t, false)
	for _, text := range []string{"", "{", "null", `{"machines":[]}`, `{"version":1,"machines":[{}]}`,
		`{"version":1,"machines":[{"id":"a","name":"a","kind":"openai","url":"http://a","key":1}]}`,
		`{"version":1,"machines":[{"id":"a","name":"a","kind":"openai","url":"http://a"},` +
			`{"id":"b","name":"A","kind":"openai","url":"http://b"}]}`} {
		dir := t.TempDir()
		path := filepath.Join(dir, fileName)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := Open(dir)
		if err == nil || !strings.Contains(err.Error(), path) || len(s.List()) != 0 {
			t.Errorf("%q: %v, %v", text, s.List(), err)
		}
		if _, err := s.Add(Machine{Kind: OpenAI, URL: "http://a"}, ""); err == nil {
			t.Errorf("%q: added a machine", text)
		}
		if after, _ := os.ReadFile(path); string(after) != text {
			t.Errorf("%q was replaced by %q", text, after)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		add(t, s, Machine{Kind: OpenAI, URL: "http://a"}, "")
	}
}

// TestLaterVersion: the machines of a later version are used, and its file stays.
func TestLaterVersion(t *testing.T) {
	withKeychain(t, false)
	dir := t.TempDir()
	text := `{"version":2,"machines":[{"id":"a","name":"a","kind":"openai","url":"http://a",` +
		`"new":1}]}`
	if err := os.WriteFile(filepath.Join(dir, fileName), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir)
	if len(s.List()) != 1 {
		t.Errorf("%+v", s.List())
	}
	if _, err := s.Remove("a"); err == nil || !strings.Contains(err.Error(), "later version") {
		t.Error(err)
	}
}

// TestTwoPrograms: stores that add at once lose nothing.
func TestTwoPrograms(t *testing.T) {
	withKeychain(t, false)
	dir := t.TempDir()
	var wait sync.WaitGroup
	const stores, each = 4, 5
	for range stores {
		s := open(t, dir)
		wait.Go(func() {
			for range each {
				if _, err := s.Add(Machine{Kind: OpenAI, URL: "http://a"}, "key"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
	s := open(t, dir)
	if n := len(s.List()); n != stores*each {
		t.Errorf("%d machines, want %d", n, stores*each)
	}
	for _, m := range s.List() {
		if secret, err := s.Secret(m); secret != "key" || err != nil {
			t.Errorf("%s has the key %q, %v", m.Name, secret, err)
		}
	}
}

func FuzzFile(f *testing.F) {
	f.Add([]byte(`{"version":1,"machines":[{"id":"a","name":"a","kind":"openai",` +
		`"url":"http://a/v1","certificate":"","added":"2026-11-29T10:00:00Z"}]}`))
	f.Add([]byte(`{"version":2,"machines":[{}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := parse(data)
		if err != nil {
			return
		}
		for i, m := range d.Machines {
			if again, err := normal(m); err != nil || !reflect.DeepEqual(again, m) {
				t.Errorf("machine %d is not in its stored form: %+v, %+v, %v", i, m, again, err)
			}
		}
	})
}
