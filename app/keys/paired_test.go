package keys

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headroom/engine/problem"
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

// TestOfferedKey: the earlier key of a machine passes beside an offered one, until that is kept. An
// offered key that is removed changes nothing.
func TestOfferedKey(t *testing.T) {
	s := open(t, t.TempDir())
	first, old, err := s.AddPaired("mac", certificateA)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Set(first.ID, first.Name, Limits{RequestsPerMinute: 7}); err != nil {
		t.Fatal(err)
	}
	_, other, err := s.AddPaired("other", certificateB)
	if err != nil {
		t.Fatal(err)
	}
	passes := func(what string, want bool, text, certificate string) {
		t.Helper()
		if got := s.FindPaired(text, certificate) != nil; got != want {
			t.Errorf("%s passes: %v, want %v", what, got, want)
		}
	}
	for _, keep := range []bool{false, true} {
		k, text, err := s.OfferPaired("mac", certificateA)
		if err != nil || k.RequestsPerMinute != 7 || k.Name != "paired: mac 2" {
			t.Fatalf("offered %+v, %v", k, err)
		}
		passes("the old key, while another is offered,", true, old, certificateA)
		passes("the offered key", true, text, certificateA)
		if keep {
			err = s.KeepPaired(k.ID, "mac")
		} else {
			_, _, err = s.Remove(k.ID)
		}
		if err != nil {
			t.Fatal(err)
		}
		passes("the old key", !keep, old, certificateA)
		passes("the new key", keep, text, certificateA)
		passes("another machine's key", true, other, certificateB)
		if now, err := s.Named("paired: mac"); err != nil || keep != (now.ID == k.ID) ||
			now.RequestsPerMinute != 7 {
			t.Errorf("now there is %+v, %v", now, err)
		}
	}
	client, _ := add(t, s, "laptop", Limits{})
	for _, id := range []string{first.ID, client.ID} {
		if err := s.KeepPaired(id, "mac"); problem.From(err).Code != problem.NotFound {
			t.Errorf("kept %s: %v", id, err)
		}
	}
	if n := len(s.List()); n != 3 {
		t.Errorf("%d keys, want 3", n)
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
