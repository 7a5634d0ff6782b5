package window

import (
	"os"
	"path/filepath"
	"testing"
)

func TestLook(t *testing.T) {
	first := Look{Width: DefaultWidth, Height: DefaultHeight}
	path := filepath.Join(t.TempDir(), "window.json")
	if got := ReadLook(path); got != first {
		t.Errorf("without a file: %+v", got)
	}
	saved := Look{Width: 900, Height: 600, X: 10, Y: 20, Placed: true, Maximized: true, Dark: true}
	if err := saved.Save(path); err != nil {
		t.Fatal(err)
	}
	if got := ReadLook(path); got != saved {
		t.Errorf("saved %+v, read %+v", saved, got)
	}
	for text, want := range map[string]Look{"": first, "[]": first, `{"width":1,"dark":true}`: {
		Width: DefaultWidth, Height: DefaultHeight, Dark: true},
		`{"width":900,"height":99999}`: first, `{"width":900}`: {Width: 900,
			Height: DefaultHeight}} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := ReadLook(path); got != want {
			t.Errorf("%s: %+v, want %+v", text, got, want)
		}
	}
	if err := saved.Save(""); err != nil || ReadLook("") != first {
		t.Error("a look without a file is kept")
	}
}

func TestLookOn(t *testing.T) {
	for _, c := range []struct {
		x, y   int
		placed bool
		want   bool
	}{
		{0, 0, true, true}, {0, 0, false, false}, {-700, 0, true, true}, {-850, 0, true, false},
		{1500, 0, true, false}, {1490, 790, true, true}, {0, 800, true, false},
		{0, -1, true, false},
	} {
		l := Look{Width: 900, Height: 600, X: c.x, Y: c.y, Placed: c.placed}
		if got := l.On(1600, 900); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
