package keys

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var certificateA, certificateB = strings.Repeat("ab", 32), strings.Repeat("cd", 32)

// TestPairedKeys: a key of a paired machine passes with that machine's certificate alone, does not
// close the endpoint for clients, and ends when it is removed.
func TestPairedKeys(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	k, text, err := s.AddPaired(" Mac\x00 Studio ", certificateA)
	if err != nil || k.Name != "paired: Mac Studio" {
		t.Fatalf("made %+v, %v", k, err)
	}
	for i, store := range []*Store{s, open(t, dir)} {
		if c := store.FindPaired(text, certificateA); c == nil || c.ID != k.ID {
			t.Errorf("store %d: the key does not pass: %+v", i, c)
		}
		for what, found := range map[string]bool{
			"without a certificate":            store.FindPaired(text, "") != nil,
			"with another certificate":         store.FindPaired(text, certificateB) != nil,
			"at the endpoint for clients":      store.Find(text) != nil,
			"with a wrong text":                store.FindPaired(text+"x", certificateA) != nil,
			"of a certificate without a key":   store.Certified(certificateB),
			"of no certificate":                store.Certified(""),
			"and closes the clients' endpoint": store.Any() || store.Count() != 0,
		} {
			if found {
				t.Errorf("store %d: the key passes %s", i, what)
			}
		}
		if !store.Certified(certificateA) {
			t.Errorf("store %d: the machine is not known", i)
		}
	}
	_, client := add(t, s, "laptop", Limits{})
	if s.FindPaired(client, certificateA) != nil || s.FindPaired(client, "") != nil {
		t.Error("a client's key passes as that of a machine")
	}
	if _, _, err := s.Remove(k.Name); err != nil {
		t.Fatal(err)
	}
	if s.FindPaired(text, certificateA) != nil || s.Certified(certificateA) {
		t.Error("the removed key passes")
	}
}

// TestPairedAgain: pairing again replaces the key and keeps its limits, and two machines may have
// the same name.
func TestPairedAgain(t *testing.T) {
	s := open(t, t.TempDir())
	first, text, err := s.AddPaired("mac", certificateA)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Set(first.ID, "renamed", Limits{RequestsPerMinute: 7}); err != nil {
		t.Fatal(err)
	}
	again, newText, err := s.AddPaired("mac", certificateA)
	if err != nil || again.RequestsPerMinute != 7 {
		t.Fatalf("made %+v, %v", again, err)
	}
	if s.FindPaired(text, certificateA) != nil || s.FindPaired(newText, certificateA) == nil {
		t.Error("the old key passes, or the new one does not")
	}
	for i, want := range []string{"paired: MAC 2", "paired: " + strings.Repeat("x", 48),
		"paired: machine"} {
		name := []string{"MAC", strings.Repeat("x", 200), "\n"}[i]
		k, _, err := s.AddPaired(name, strings.Repeat([]string{"11", "22", "33"}[i], 32))
		if err != nil || k.Name != want {
			t.Errorf("the key of %q is %q, %v, want %q", name, k.Name, err, want)
		}
	}
	for _, wrong := range []string{"", "x", certificateA[1:], strings.ToUpper(certificateA)} {
		if _, _, err := s.AddPaired("mac", wrong); err == nil {
			t.Errorf("the certificate %q was accepted", wrong)
		}
	}
}

// TestPairedFileVersion: only a file with keys of machines has the version that earlier Headrooms
// do not change.
func TestPairedFileVersion(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	version := func() string {
		data, err := os.ReadFile(filepath.Join(dir, fileName))
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(data), `"version": `)
		return rest[:1]
	}
	add(t, s, "laptop", Limits{})
	if v := version(); v != "1" {
		t.Errorf("without machines the file has version %s", v)
	}
	k, _, err := s.AddPaired("mac", certificateA)
	if err != nil || version() != "2" {
		t.Errorf("with a machine the file has version %s, %v", version(), err)
	}
	if _, _, err := s.Remove(k.ID); err != nil || version() != "1" {
		t.Errorf("after its removal the file has version %s, %v", version(), err)
	}
}

// TestPairedAreNotCounted: the number of keys that are left is that of keys for clients.
func TestPairedAreNotCounted(t *testing.T) {
	s := open(t, t.TempDir())
	add(t, s, "laptop", Limits{})
	if _, _, err := s.AddPaired("mac", certificateA); err != nil {
		t.Fatal(err)
	}
	if _, left, err := s.Remove("laptop"); err != nil || left != 0 {
		t.Errorf("%d keys are left, %v", left, err)
	}
}
