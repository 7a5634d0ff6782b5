package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestVersion runs build/version in a temporary repository: before the first tag, at a tag, after
// it, at a tag that is not a version, and at a pre-release tag.
func TestVersion(t *testing.T) {
	dir := t.TempDir()
	script, err := os.ReadFile("../version")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "build"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"build/version": string(script),
		"wails.json": `{"info": {"productVersion": "0.1.0"}}`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	git := func(args ...string) {
		t.Helper()
		command := exec.Command("git",
			append([]string{"-c", "user.name=a", "-c", "user.email=a@example.org", "-c",
				"commit.gpgsign=false", "-c", "tag.gpgsign=false"}, args...)...)
		command.Dir = dir
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
	}
	says := func(name, number, build string) {
		t.Helper()
		for form, want := range map[string]string{"name": name, "number": number, "build": build} {
			out, err := exec.Command("bash", filepath.Join(dir, "build/version"), form).Output()
			if got := strings.TrimSpace(string(out)); err != nil || !strings.HasPrefix(got, want) ||
				form != "name" && got != want {
				t.Errorf("%s is %q (%v), want %q", form, got, err, want)
			}
		}
	}
	git("init", "-q")
	git("add", ".")
	git("commit", "-q", "-m", "one")
	says("", "0.1.0", "1")
	git("tag", "v0.2.0")
	says("v0.2.0", "0.2.0", "1")
	git("commit", "-q", "--allow-empty", "-m", "two")
	says("v0.2.0-1-g", "0.2.0", "2")
	git("tag", "nightly")
	says("", "0.2.0", "2")
	git("commit", "-q", "--allow-empty", "-m", "three")
	git("tag", "v0.3.0-rc1")
	says("v0.3.0-rc1", "0.3.0", "3")
}
