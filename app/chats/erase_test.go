package chats

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"headroom/engine/problem"
)

// TestErase erases conversations, encrypted and not, in a folder with files of others. Only the
// latter stay, and nobody can save an erased conversation again.
func TestErase(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "chats")
	s := openStore(dir)
	if err := s.Erase(); err != nil {
		t.Fatal("no folder:", err)
	}
	hello := Change{Title: "Hello", Messages: []Message{{ID: "1", Role: "user", Content: "Hi"}}}
	for _, id := range []string{"one", "two"} {
		if _, err := s.Write(id, hello); err != nil {
			t.Fatal(err)
		}
	}
	outside := filepath.Join(t.TempDir(), "outside.json")
	put := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(filepath.Join(dir, "wiped.json"), strings.Repeat("\x00", 200)) // by a killed program
	put(filepath.Join(dir, "half.json"), strings.Repeat("\x00", 64<<10)+"the rest of a text")
	put(filepath.Join(dir, "gone.salt"), strings.Repeat("\x00", 32))
	put(outside, `{"version":1,"id":"link","title":""}`)
	put(filepath.Join(dir, "old.json"), `{"version":1,"id":"old","title":"Old"}`+"\n")
	foreign := map[string]string{"notes.json": `{"notes": []}`, "letter.txt": "mine",
		"talk.chat": "mine", "table.salt": "mine", "renamed.json": `{"version":1,"id":"x"}`,
		".old.json": "mine"}
	for name, text := range foreign {
		put(filepath.Join(dir, name), text)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "link.json")); err != nil {
		t.Fatal(err)
	}
	if err := s.Erase(); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		text, _ := os.ReadFile(filepath.Join(dir, e.Name()))
		if e.Name() != "link.json" && string(text) != foreign[e.Name()] {
			t.Errorf("%s is left: %q", e.Name(), text)
		}
	}
	if len(entries) != len(foreign)+1 {
		t.Errorf("%d files are left, expected the %d of others", len(entries), len(foreign)+1)
	}
	if text, err := os.ReadFile(outside); err != nil || len(text) == 0 {
		t.Errorf("a file behind a link: %q, %v", text, err)
	}
	hello.Revision = 1
	_, err = s.Write("one", hello)
	if problem.From(err).Code != problem.NotFound {
		t.Errorf("an erased conversation: %v, expected %s", err, problem.NotFound)
	}
	hello.Revision = 0
	if _, err := s.Write("three", hello); err != nil {
		t.Error("a new conversation:", err)
	}
	list, err := s.List()
	if err != nil || !slices.ContainsFunc(list, func(c Summary) bool { return c.ID == "three" }) {
		t.Errorf("%+v, %v", list, err)
	}
}
