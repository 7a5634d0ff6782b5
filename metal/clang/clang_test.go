package clang

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func cache(t *testing.T, dir string, inputs ...any) *Cache {
	t.Helper()
	c, err := OpenCache(dir, "test", inputs)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestCache checks that each set of inputs is built once, that a CompileError is cached and another
// error is not, and that no temporary files remain.
func TestCache(t *testing.T) {
	dir := t.TempDir()
	c := cache(t, dir, "flags", 1)
	file := c.File("a/x.metal", "text")
	if !strings.HasPrefix(filepath.Base(file), "x-") || filepath.Dir(file) != dir ||
		c.Dir() != dir {
		t.Errorf("got %s, expected x and a hash in %s", file, dir)
	}
	if file == c.File("a/x.metal", "text ") ||
		file == cache(t, dir, "flags", 2).File("a/x.metal", "text") ||
		file != cache(t, dir, "flags", 1).File("b/x.metal", "text") {
		t.Error("the name must depend on the text and the inputs alone")
	}
	made := 0
	build := func(_, out string) error { made++; return os.WriteFile(out, []byte("code"), 0o600) }
	for range 2 {
		if err := c.Make(file, build); err != nil || made != 1 || !c.Have(file) {
			t.Fatalf("got %v, built %d times", err, made)
		}
	}
	tried := 0
	for range 2 {
		var rejected *CompileError
		err := c.Make(file+"2", func(_, _ string) error {
			tried++
			return &CompileError{"line 3 is wrong"}
		})
		if !errors.As(err, &rejected) || rejected.Text != "line 3 is wrong" || tried != 1 {
			t.Errorf("got %v after %d tries, expected one try and a cached error", err, tried)
		}
	}
	broken := errors.New("disk full")
	if err := c.Make(file+"3", func(_, _ string) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	if err := c.Make(file+"3", build); err != nil {
		t.Errorf("building again after an error that is not cached: %v", err)
	}
	left, err := filepath.Glob(filepath.Join(dir, buildPrefix+"*"))
	if err != nil || len(left) > 0 {
		t.Errorf("temporary files remain: %v, %v", left, err)
	}
}

// TestSweep checks that making a file removes the files that have not been used for a long time.
func TestSweep(t *testing.T) {
	c := cache(t, t.TempDir())
	build := func(_, out string) error { return os.WriteFile(out, nil, 0o600) }
	old, used := c.File("old", "1"), c.File("used", "2")
	past := time.Now().Add(-2 * unusedFor)
	for _, f := range []string{old, used} {
		if err := errors.Join(c.Make(f, build), os.Chtimes(f, past, past)); err != nil {
			t.Fatal(err)
		}
	}
	if !c.Have(used) {
		t.Fatal("the cache does not have the file that was made")
	}
	if err := c.Make(c.File("new", "3"), build); err != nil {
		t.Fatal(err)
	}
	if c.Have(old) || !c.Have(used) {
		t.Errorf("has old: %t, has used: %t; expected only the used file", c.Have(old),
			c.Have(used))
	}
}

// TestForeignFilesInCache: the sweep keeps old files that are not the cache's. People may choose
// any folder as cache.
func TestForeignFilesInCache(t *testing.T) {
	dir := t.TempDir()
	c := cache(t, dir)
	past := time.Now().Add(-2 * unusedFor)
	foreign := []string{"thesis.pdf", "build-1/notes.txt", "photos/a.jpg", "libx.so",
		"a-0123456789abcdef0123.pdf", "a-0123.so", ".hidden",
		"a-0123456789abcdef0123.ptx.d/x", buildPrefix + "x/a"}
	ours := []string{filepath.Base(c.File("x", "1")) + ".so",
		filepath.Base(c.File("x", "2")) + ".ptx.refused", buildPrefix + "77/kernels.o"}
	for _, name := range append(foreign, ours...) {
		path := filepath.Join(dir, name)
		err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700),
			os.WriteFile(path, []byte("x"), 0o600), os.Chtimes(path, past, past))
		if filepath.Dir(path) != dir {
			err = errors.Join(err, os.Chtimes(filepath.Dir(path), past, past))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	const link = "l-0123456789abcdef0123.so"
	if err := os.Symlink("thesis.pdf", filepath.Join(dir, link)); err != nil {
		t.Fatal(err)
	}
	c.sweep(time.Now())
	for _, name := range append(foreign, link) {
		if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
	for _, name := range ours {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			t.Errorf("%s is left", name)
		}
	}
}

// TestFind checks that the error for a missing or outdated compiler says how to install one.
func TestFind(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	install := func(version string) {
		script := "#!/bin/sh\necho '" + version + "'\n"
		if err := os.WriteFile(filepath.Join(dir, "clang"), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, text := range []string{"", "Debian clang version 14.0.6", "gibberish"} {
		if text != "" {
			install(text)
		}
		if _, _, err := Find(); !errors.Is(err, ErrMissing) ||
			!strings.Contains(err.Error(), "build/setup sim") {
			t.Errorf("%q: got %v, expected ErrMissing and how to install clang", text, err)
		}
	}
	install("Debian clang version 19.1.7 (3)")
	if path, version, err := Find(); err != nil || path != filepath.Join(dir, "clang") ||
		version != "Debian clang version 19.1.7 (3)" {
		t.Errorf("got %q, %q, %v", path, version, err)
	}
}

// TestRun checks that a CompileError has the compiler's message without the folder's name, and that
// the error of a compiler that crashes is not a CompileError.
func TestRun(t *testing.T) {
	dir, sh := t.TempDir(), "/bin/sh"
	if out, err := Run(dir, sh, "-c", "pwd; echo warned >&2"); err != nil ||
		strings.TrimSpace(string(out)) != dir {
		t.Errorf("got %q, %v", out, err)
	}
	var rejected *CompileError
	_, err := Run(dir, sh, "-c", "echo $PWD/x.metal:3: wrong >&2; exit 1")
	if !errors.As(err, &rejected) || rejected.Text != "sh rejects the source:\nx.metal:3: wrong\n" {
		t.Errorf("got %v, expected the compiler's message", err)
	}
	var never *CompileError
	if _, err := Run(dir, sh, "-c", "echo killed >&2; exit 2"); err == nil ||
		errors.As(err, &never) || !strings.Contains(err.Error(), "killed") {
		t.Errorf("got %v, expected an error that is not a CompileError", err)
	}
	long := "for i in 1 2 3 4 5 6 7 8 9 10; do printf %01000d 0 >&2; done; exit 1"
	if _, err := Run(dir, sh, "-c", long); err == nil || len(err.Error()) > maxMessage+100 {
		t.Errorf("got a message of %d bytes, expected it truncated", len(err.Error()))
	}
}
