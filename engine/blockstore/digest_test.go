package blockstore

import "testing"

// TestDigest: a digest survives a restart and a later one replaces it.
func TestDigest(t *testing.T) {
	dir := t.TempDir()
	for i, want := range []string{"", "one", "two"} {
		s, err := Open(dir, Options{MinFreeBytes: -1})
		if err != nil {
			t.Fatal(err)
		}
		if text, ok := s.Digest("weights"); text != want || ok != (want != "") {
			t.Errorf("start %d: %q %t, expected %q", i, text, ok, want)
		}
		s.SetDigest("weights", []string{"one", "two", "three"}[i])
		if _, ok := s.Digest("other"); ok {
			t.Error("there is a digest that nobody has set")
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
