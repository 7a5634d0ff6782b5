package control

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestForeignToken: a file "token" of somebody else is copied before it is replaced, once.
func TestForeignToken(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "token")
	const text = "my bank's token\n"
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	first, err := LoadToken(dir)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := LoadToken(dir); again != first || err != nil {
		t.Errorf("the token has changed: %v", err)
	}
	if left, err := os.ReadFile(path + ".set-aside-1"); string(left) != text {
		t.Errorf("the copy has %q, %v", left, err)
	}
	if copies, _ := filepath.Glob(path + ".*"); len(copies) != 1 {
		t.Errorf("copies: %q", copies)
	}
	long := strings.Repeat("mine", maxTokenFile)
	if err := os.WriteFile(path, []byte(long), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadToken(dir); err == nil {
		t.Error("a long file was replaced")
	}
	if left, _ := os.ReadFile(path); string(left) != long {
		t.Error("a long file has changed")
	}
	if err := errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadToken(dir); err == nil || !strings.Contains(err.Error(), "named pipe") {
		t.Errorf("a pipe: %v", err)
	}
}
