package main

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/wailsapp/wails/v2/pkg/menu/keys"
)

// TestMenuRows checks that no two rows have the same key, that none has a key of the system's own
// rows, and that the page knows every command.
func TestMenuRows(t *testing.T) {
	page, err := os.ReadFile("frontend/src/windowcommands.ts")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := os.ReadFile("frontend/src/pages.ts")
	if err != nil {
		t.Fatal(err)
	}
	taken := []string{"q", "h", "z", "x", "c", "v", "a", "m"} // Quit, Hide, Edit, Minimize
	var seen []string
	for _, r := range slices.Concat(fileRows, findRows, viewRows) {
		if r.command == "" {
			continue
		}
		if r.key != nil {
			key := keys.Stringify(r.key, "darwin")
			if slices.Contains(seen, key) || slices.Contains(taken, r.key.Key) {
				t.Errorf("%s has the key %s of another row", r.title, key)
			}
			seen = append(seen, key)
		}
		known := regexp.MustCompile(`(?m)^  '?` + regexp.QuoteMeta(r.command) + `'?[:,]`).Match(page)
		if id, ok := cutPage(r.command); ok {
			known = regexp.MustCompile(`id: '` + id + `'`).Match(pages)
		}
		if !known {
			t.Errorf("the page does not know the command %q of %s", r.command, r.title)
		}
	}
	var sent []string
	macMenu(func(c string) { sent = append(sent, c) }).Items[1].SubMenu.Items[0].Click(nil)
	if !slices.Equal(sent, []string{"new-chat"}) {
		t.Errorf("New Chat sends %q", sent)
	}
	if applicationMenu(nil) != nil && os.Getenv("GOOS") == "linux" {
		t.Error("there is a menu inside the window")
	}
}

func cutPage(command string) (id string, ok bool) {
	m := regexp.MustCompile(`^page-(\w+)$`).FindStringSubmatch(command)
	if m == nil {
		return "", false
	}
	return m[1], true
}
