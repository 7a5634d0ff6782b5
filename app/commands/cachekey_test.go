package commands

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCacheKey hands a cache to another installation: without the key it is refused and stays as it
// is, with the key it is used.
func TestCacheKey(t *testing.T) {
	home := isolate(t)
	dir, file := filepath.Join(home, "shared"), filepath.Join(home, "exported")
	remember(t, dir)
	folder := []string{"cache", "--block-ssd-cache-dir", dir}
	run := func(want int, args ...string) string {
		t.Helper()
		code, out, errOut := headroom("", append(folder, args...)...)
		if code != want {
			t.Fatalf("%q: exit %d, %s%s", args, code, out, errOut)
		}
		return out + errOut
	}
	run(0, "export-key", file)
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the exported key: %v, %v", info, err)
	}
	if text := run(1, "export-key", file); !strings.Contains(text, "exists") {
		t.Errorf("a second export says %s", text)
	}
	key, err := os.ReadFile(file)
	if out := run(0, "export-key", "-"); err != nil || out != string(key) {
		t.Errorf("printed %q, in the file %q, %v", out, key, err)
	}

	isolate(t) // another home, and so another key
	for _, args := range [][]string{{"ls"}, {"clear"}, {"export-key", "-"}} {
		if text := run(1, args...); !strings.Contains(text, "another key") {
			t.Errorf("%q says %s", args, text)
		}
	}
	if text := run(1, "import-key", dir+"/index.sqlite"); !strings.Contains(text, "not the key") {
		t.Errorf("importing another file says %s", text)
	}
	run(0, "import-key", file)
	list := listed(t, "--block-ssd-cache-dir", dir)
	if len(list) != 1 || !strings.HasPrefix(list[0].Title, "Keys and values") {
		t.Fatalf("listed %+v", list)
	}
	remember(t, dir)
	if list = listed(t, "--block-ssd-cache-dir", dir); len(list) != 1 || list[0].Hits != 1 {
		t.Errorf("the imported conversation was not used: %+v", list)
	}
	run(0, "rm", list[0].Key[:8])
}

// TestPlainCache: a cache without encryption is used as it is, and not encrypted by `cache ls`.
func TestPlainCache(t *testing.T) {
	dir := filepath.Join(isolate(t), "plain")
	if code, _, errOut := headroom("", "run", "--no-ssd-cache-encryption", "--block-ssd-cache-dir",
		dir, longQuestion); code != 0 {
		t.Fatalf("exit %d, %s", code, errOut)
	}
	for range 2 {
		if list := listed(t, "--block-ssd-cache-dir", dir); len(list) != 1 {
			t.Errorf("listed %+v", list)
		}
	}
	remember(t, dir) // encrypts it
	if code, _, errOut := headroom("", "run", "--no-ssd-cache-encryption", "--block-ssd-cache-dir",
		dir, longQuestion); code != 0 || !strings.Contains(errOut, "is encrypted") {
		t.Errorf("exit %d, %s", code, errOut)
	}
}
