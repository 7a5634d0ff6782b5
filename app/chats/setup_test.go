package chats

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"headroom/engine/problem"
)

// TestSetup: a setup survives restarts and changes that do not name one, and a line that is damaged
// costs it alone.
func TestSetup(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "chats")
	s := openStore(dir)
	setup := &Setup{Prompt: "Answer in\nDanish.", Preset: "Danish", Model: "m",
		Sampling: map[string]float64{"temperature": 0.2}}
	mustWrite(t, s, "a", Change{Messages: []Message{question("1", "Hi")}, Setup: setup})
	mustWrite(t, s, "a", Change{Revision: 1, From: 1, Messages: []Message{answer("2", "Hej")}})
	s = openStore(dir)
	c, err := s.Read("a")
	if err != nil || len(c.Messages) != 2 || !reflect.DeepEqual(c.Setup, setup) {
		t.Fatalf("got %d messages and the setup %+v, %v; want 2 and %+v", len(c.Messages), c.Setup,
			err, setup)
	}
	mustWrite(t, s, "a", Change{Revision: 2, From: 2, Setup: &Setup{}})
	if c, err = s.Read("a"); err != nil || !reflect.DeepEqual(c.Setup, &Setup{}) {
		t.Fatalf("after a change to no setup: %+v, %v", c.Setup, err)
	}

	damaged := parse([]byte(strings.Replace(string(encode(Chat{
		Summary:  Summary{ID: "a", Revision: 1},
		Messages: []Message{question("1", "Hi")}, Setup: setup,
	})), `"prompt"`, `"prompt`, 1)), "a")
	if damaged.Summary.Damage == "" || damaged.Setup != nil || len(damaged.Messages) != 1 {
		t.Fatalf("a damaged setup: damage %q, setup %+v, %d messages", damaged.Summary.Damage,
			damaged.Setup, len(damaged.Messages))
	}
}

// TestVersions: the other versions and the attachments of a question are kept, and checked as
// messages are.
func TestVersions(t *testing.T) {
	s := openStore(filepath.Join(t.TempDir(), "chats"))
	first := question("1", "Sum up.")
	first.Attachments = []Attachment{{Name: "a.pdf", Text: "page\none", Pages: 2}}
	first.Others = [][]Message{{question("0", "Sum this up."), answer("2", "No.")}}
	first.Version = 1
	mustWrite(t, s, "a", Change{Messages: []Message{first, answer("3", "Yes.")}})
	c, err := s.Read("a")
	if err != nil || !reflect.DeepEqual(c.Messages[0], first) {
		t.Fatalf("got %+v, %v; want %+v", c.Messages, err, first)
	}
	first.Others[0][1].Role = "system"
	_, err = s.Write("b", Change{Messages: []Message{first}})
	if codeOf(err) != problem.BadRequest || !strings.Contains(problem.From(err).Why, "version") {
		t.Fatalf("a version with an invalid role: %v", err)
	}
}
