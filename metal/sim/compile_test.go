//go:build linux && amd64

package sim

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestCache checks that a library is compiled once for each text and each setting of Check.
func TestCache(t *testing.T) {
	dir := t.TempDir()
	libraries := func() (names []string) {
		found, err := filepath.Glob(filepath.Join(dir, "*.so"))
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	d := open(t, Options{CacheDir: dir})
	compile(t, d, "add.metal", addSource)
	first := libraries()
	if len(first) != 2 { // the runtime and the kernels
		t.Fatalf("got %v, expected two libraries", first)
	}
	old := time.Now().Add(-time.Hour)
	for _, f := range first {
		if err := os.Chtimes(f, old, old); err != nil {
			t.Fatal(err)
		}
	}
	compile(t, open(t, Options{CacheDir: dir, Seed: 4}), "add.metal", addSource)
	for _, f := range libraries() {
		if info, err := os.Stat(f); err != nil || !info.ModTime().Equal(old) {
			t.Errorf("%s was built again (%v)", f, err)
		}
	}
	compile(t, d, "add.metal", addSource+"\n// another text\n")
	if got := len(libraries()); got != 3 {
		t.Errorf("after another text: got %d libraries, expected 3", got)
	}
	compile(t, open(t, Options{CacheDir: dir, Check: true}), "add.metal", addSource)
	if got := len(libraries()); got != 5 {
		t.Errorf("after checking too: got %d libraries, expected 5", got)
	}
	for range 2 { // the second time from the cache
		_, err := d.NewLibrary("broken.metal",
			prologue+"kernel void k(device float* x [[buffer(0)]]) { x[0] = y; }", nil)
		mentions(t, err, "undeclared identifier 'y'")
		if found, globErr := filepath.Glob(filepath.Join(dir, "*.refused")); globErr != nil ||
			len(found) != 1 {
			t.Errorf("got %v, expected one cached error", found)
		}
	}
	left, err := filepath.Glob(filepath.Join(dir, "*build-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("temporary files remain: %v, %v", left, err)
	}
}

// TestNoCompiler checks that without a compiler the error of Open wraps ErrUnavailable and says how
// to install one.
func TestNoCompiler(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	old := "#!/bin/sh\necho Debian clang version 14.0.6\n"
	if err := os.WriteFile(filepath.Join(dir, "clang"), []byte(old), 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := Open(Options{CacheDir: dir})
	if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "build/setup sim") {
		t.Errorf("got %v, expected ErrUnavailable and how to install clang", err)
	}
}

// TestCompilerError checks that the error has the compiler's message with lines of the source.
func TestCompilerError(t *testing.T) {
	d := open(t, Options{})
	_, err := d.NewLibrary("broken.metal",
		prologue+"kernel void k(device float* x [[buffer(0)]]) { x[0] = y; }", nil)
	mentions(t, err, "broken.metal:3:")
	mentions(t, err, "undeclared identifier 'y'")
	if strings.Contains(err.Error(), os.TempDir()+"/") || strings.Contains(err.Error(), "build-") {
		t.Errorf("the message names a temporary folder: %v", err)
	}
}
