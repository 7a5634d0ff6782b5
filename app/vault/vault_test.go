package vault

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"headroom/engine/problem"
	"headroom/engine/seal"
)

// mustKey returns the vault's key.
func mustKey(t *testing.T, v *Vault) seal.Key {
	t.Helper()
	k, err := v.Key()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// fileVault returns a vault without a keychain.
func fileVault(dir string) *Vault { return &Vault{dir: dir, now: time.Now} }

func TestKeyInAFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "settings")
	v := fileVault(dir)
	k := mustKey(t, v)
	if mustKey(t, fileVault(dir)) != k || mustKey(t, v) != k {
		t.Error("the key has changed")
	}
	info, err := os.Stat(v.path())
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file has mode %v, %v", info.Mode(), err)
	}
	if err := os.Chmod(v.path(), 0o644); err != nil {
		t.Fatal(err)
	}
	mustKey(t, fileVault(dir))
	if info, _ := os.Stat(v.path()); info.Mode().Perm() != 0o600 {
		t.Errorf("others may still read the file: %v", info.Mode())
	}
	if err := v.Destroy(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(v.path()); err == nil {
		t.Error("the destroyed key's file is still there")
	}
	if err := v.Destroy(); err != nil {
		t.Errorf("a second time: %v", err)
	}
	if mustKey(t, v) == k {
		t.Error("the destroyed key is back")
	}
}

// TestOneKey: programs that start at once agree on one key.
func TestOneKey(t *testing.T) {
	dir := t.TempDir()
	keys := make([]seal.Key, 16)
	var all sync.WaitGroup
	for i := range keys {
		all.Go(func() { keys[i], _ = fileVault(dir).Key() })
	}
	all.Wait()
	for _, k := range keys {
		if k != keys[0] || k == (seal.Key{}) {
			t.Fatal("two programs have different keys")
		}
	}
}

// TestNeverReplaced: what cannot be read as a key stays as it is. Destroy names it.
func TestNeverReplaced(t *testing.T) {
	for name, make := range map[string]func(path string) error{
		"cut":     func(p string) error { return os.WriteFile(p, []byte("00112233"), 0o600) },
		"foreign": func(p string) error { return os.WriteFile(p, []byte("mine key\n"), 0o600) },
		"empty":   func(p string) error { return os.WriteFile(p, nil, 0o600) },
		"link":    func(p string) error { return os.Symlink("elsewhere", p) },
		"folder":  func(p string) error { return os.Mkdir(p, 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			v := fileVault(t.TempDir())
			if err := make(v.path()); err != nil {
				t.Fatal(err)
			}
			before, _ := os.Lstat(v.path())
			_, err := v.Key()
			if err == nil || problem.From(err).Code != problem.Locked {
				t.Errorf("got %v", err)
			}
			text, _ := os.ReadFile(v.path())
			if err := v.Destroy(); err == nil || !strings.Contains(err.Error(), v.path()) {
				t.Errorf("Destroy does not name the file: %v", err)
			}
			if left, _ := os.ReadFile(v.path()); string(left) != string(text) {
				t.Errorf("Destroy has changed the file to %q", left)
			}
			if after, err := os.Lstat(v.path()); err != nil || !os.SameFile(before, after) ||
				after.Size() != before.Size() {
				t.Errorf("the file has changed: %v", err)
			}
		})
	}
	var none *Vault
	if _, err := none.Key(); err == nil || problem.From(err).Code != problem.Locked {
		t.Errorf("without a settings folder: %v", err)
	}
}

// TestLockIsNoFile: what is in the place of the lock and not a file is neither followed nor waited
// for. The error names it.
func TestLockIsNoFile(t *testing.T) {
	for name, make := range map[string]func(path string) error{
		"pipe": func(p string) error { return syscall.Mkfifo(p, 0o600) },
		"link": func(p string) error { return os.Symlink("elsewhere", p) },
		"link to a pipe": func(p string) error {
			return errors.Join(syscall.Mkfifo(p+"2", 0o600), os.Symlink(p+"2", p))
		},
	} {
		v := fileVault(t.TempDir())
		lock := filepath.Join(v.dir, fileName+".lock")
		if err := make(lock); err != nil {
			t.Fatal(err)
		}
		if _, err := v.Key(); err == nil || !strings.Contains(err.Error(), lock) {
			t.Errorf("%s: Key: %v", name, err)
		}
		if err := v.Destroy(); err == nil || !strings.Contains(err.Error(), lock) {
			t.Errorf("%s: Destroy: %v", name, err)
		}
		if _, err := os.Lstat(filepath.Join(v.dir, "elsewhere")); err == nil {
			t.Errorf("%s: the target was created", name)
		}
	}
}

// TestDestroyInterrupted: zeros that a killed program left of a key are removed. A program that
// starts meanwhile makes a new key.
func TestDestroyInterrupted(t *testing.T) {
	v := fileVault(t.TempDir())
	old := mustKey(t, v)
	if err := seal.OverwriteFile(v.path()); err != nil {
		t.Fatal(err)
	}
	if fresh := mustKey(t, fileVault(v.dir)); fresh == old || fresh == (seal.Key{}) {
		t.Error("there is no new key")
	}
	if err := seal.OverwriteFile(v.path()); err != nil {
		t.Fatal(err)
	}
	if err := v.Destroy(); err != nil {
		t.Fatal(err)
	}
	mustKey(t, v)
}

// TestDestroyTemporary: Destroy also removes a key that a killed program was writing.
func TestDestroyTemporary(t *testing.T) {
	v := fileVault(t.TempDir())
	mustKey(t, v)
	temporary, foreign := filepath.Join(v.dir, ".key815"), filepath.Join(v.dir, ".key815x")
	for _, path := range []string{temporary, foreign} {
		if err := os.WriteFile(path, []byte("a key"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := v.Destroy(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(temporary); err == nil {
		t.Error("the temporary file is left")
	}
	if _, err := os.Stat(foreign); err != nil {
		t.Error(err)
	}
}

// fakeTool writes a program that acts like the Mac's `security`, for one keychain item. The file
// "mode" beside it makes it fail with that exit code; "log" has its arguments.
func fakeTool(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "security")
	script := `#!/bin/sh
here=$(dirname "$0")
echo "$@" >>"$here/log"
if [ -f "$here/mode" ]; then echo "security: it failed" >&2; exit "$(cat "$here/mode")"; fi
case $1 in
find-generic-password) [ -f "$here/item" ] || exit 44; cat "$here/item" ;;
delete-generic-password) [ -f "$here/item" ] || exit 44; rm "$here/item" ;;
-i)
	read -r line
	[ ! -f "$here/item" ] || exit 45
	echo "${line##* }" >"$here/item" ;;
esac
`
	if err := os.WriteFile(path, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func chainVault(dir, tool string) *Vault {
	return &Vault{dir: dir, now: time.Now, chain: &securityTool{account: dir, path: tool}}
}

func TestKeychain(t *testing.T) {
	dir, tool := t.TempDir(), fakeTool(t)
	k := mustKey(t, chainVault(dir, tool))
	v := chainVault(dir, tool)
	if mustKey(t, v) != k {
		t.Error("the key has changed")
	}
	if _, err := os.Stat(v.path()); err == nil {
		t.Error("the key is in a file, too")
	}
	log, err := os.ReadFile(filepath.Join(filepath.Dir(tool), "log"))
	item, _ := os.ReadFile(filepath.Join(filepath.Dir(tool), "item"))
	if secret := strings.TrimSpace(string(item)); err != nil || len(secret) != 64 ||
		strings.Contains(string(log), secret) {
		t.Errorf("the secret %q is in the arguments: %s", secret, log)
	}
	if err := v.Destroy(); err != nil {
		t.Fatal(err)
	}
	if mustKey(t, v) == k {
		t.Error("the destroyed key is back")
	}
}

// TestLockedKeychain: while the keychain refuses, there is no key, none is made, and the user is
// not asked again for each use.
func TestLockedKeychain(t *testing.T) {
	dir, tool := t.TempDir(), fakeTool(t)
	k := mustKey(t, chainVault(dir, tool))
	now := time.Now()
	v := chainVault(dir, tool)
	v.now = func() time.Time { return now }
	mode := filepath.Join(filepath.Dir(tool), "mode")
	for _, code := range []string{"36", "51", "128"} { // locked, wrong password, denied
		if err := os.WriteFile(mode, []byte(code), 0o600); err != nil {
			t.Fatal(err)
		}
		now = now.Add(time.Minute)
		_, err := v.Key()
		if err == nil || problem.From(err).Code != problem.Locked ||
			!strings.Contains(err.Error(), "exit code "+code) {
			t.Errorf("exit code %s: %v", code, err)
		}
		if err := v.Destroy(); err == nil {
			t.Errorf("exit code %s: destroying a key that cannot be reached succeeds", code)
		}
	}
	now = now.Add(time.Minute)
	_, _ = v.Key()
	if err := os.Remove(mode); err != nil {
		t.Fatal(err)
	}
	if _, err := v.Key(); err == nil {
		t.Error("the keychain was asked again at once")
	}
	now = now.Add(time.Minute)
	if mustKey(t, v) != k {
		t.Error("the unlocked keychain has another key")
	}
	if _, err := os.Stat(v.path()); err == nil {
		t.Error("a file was made beside the keychain")
	}
}

// TestNoKeychain: without a keychain, or without the tool, the key is in a file.
func TestNoKeychain(t *testing.T) {
	tool := fakeTool(t)
	if err := os.WriteFile(filepath.Join(filepath.Dir(tool), "mode"), []byte("37"),
		0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{tool, filepath.Join(t.TempDir(), "missing")} {
		dir := t.TempDir()
		k := mustKey(t, chainVault(dir, path))
		if mustKey(t, fileVault(dir)) != k {
			t.Errorf("%s: the key is not in the file", path)
		}
		if err := chainVault(dir, path).Destroy(); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	odd := filepath.Join(t.TempDir(), "a user's folder")
	v := chainVault(odd, fakeTool(t))
	mustKey(t, v)
	if _, err := os.Stat(v.path()); err != nil {
		t.Errorf("a folder whose name the tool does not take: %v", err)
	}
}

// TestFileFirst: a key file counts before the keychain.
func TestFileFirst(t *testing.T) {
	dir := t.TempDir()
	k := mustKey(t, fileVault(dir))
	if mustKey(t, chainVault(dir, fakeTool(t))) != k {
		t.Error("the keychain's key was used")
	}
}

// TestNotWritable: a settings folder that cannot be written to is no reason to fail later.
func TestNotWritable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := fileVault(filepath.Join(file, "settings")).Key()
	if err == nil || problem.From(err).Code != problem.Locked || errors.Is(err, errNoKey) {
		t.Errorf("got %v", err)
	}
}
