package frontend

import (
	"io/fs"
	"os"
	"testing"
)

// The embedded tree and the folder it was taken from agree, before and after a build.
func TestBuiltFollowsDist(t *testing.T) {
	_, err := os.Stat("dist/index.html")
	if want := err == nil; Built() != want {
		t.Fatalf("Built() = %v, dist/index.html exists: %v", Built(), want)
	}
	if _, err := fs.Stat(FS(), ".gitkeep"); err != nil {
		t.Fatalf("dist/.gitkeep is not embedded, a fresh clone would not compile: %v", err)
	}
	if !Built() {
		return
	}
	page, err := fs.ReadFile(FS(), "index.html")
	if err != nil || len(page) == 0 {
		t.Fatalf("index.html at the root of FS: %d bytes, %v", len(page), err)
	}
}
