package hub

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/zalando/go-keyring"
)

// isolate points the token's places at an empty home folder and returns the token file's path.
func isolate(t *testing.T) string {
	home := t.TempDir()
	for name, value := range map[string]string{"HOME": home, "HF_HOME": "", "HF_TOKEN": "",
		"HUGGING_FACE_HUB_TOKEN": "", "HF_TOKEN_PATH": "",
		"DBUS_SESSION_BUS_ADDRESS": "unix:path=/nowhere"} {
		t.Setenv(name, value)
	}
	return filepath.Join(home, ".cache", "huggingface", "token")
}

func expectToken(t *testing.T, tokens *Tokens, want string, source TokenSource) {
	t.Helper()
	if got, from := tokens.Token(); got != want || from != source {
		t.Errorf("token %q from %q, want %q from %q", got, from, want, source)
	}
}

// A token is saved in the keychain, and the environment overrides it.
func TestTokens(t *testing.T) {
	path := isolate(t)
	keyring.MockInit()
	tokens := &Tokens{}
	expectToken(t, tokens, "", NoToken)
	if source, err := tokens.Save(" hf_abc\n"); source != TokenKeychain || err != nil {
		t.Errorf("saved in %q, %v", source, err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("the token is in a file too")
	}
	expectToken(t, tokens, "hf_abc", TokenKeychain)
	expectToken(t, &Tokens{}, "hf_abc", TokenKeychain)
	t.Setenv("HF_TOKEN", "hf_env")
	expectToken(t, tokens, "hf_env", TokenEnvironment)
	t.Setenv("HF_TOKEN", "")
	if _, err := tokens.Save(`hf" -s other`); err == nil {
		t.Error("saved an invalid token")
	}
	if _, err := tokens.Save(""); err != nil {
		t.Error(err)
	}
	expectToken(t, tokens, "", NoToken)
}

// The keychain is asked again only after readAgain.
func TestTokenIsCached(t *testing.T) {
	isolate(t)
	keyring.MockInit()
	tokens := &Tokens{}
	if _, err := tokens.Save("hf_abc"); err != nil {
		t.Fatal(err)
	}
	expectToken(t, tokens, "hf_abc", TokenKeychain)
	if err := keyring.Set(keychainService, keychainAccount, "hf_other"); err != nil {
		t.Fatal(err)
	}
	expectToken(t, tokens, "hf_abc", TokenKeychain)
	tokens.readAt = time.Now().Add(-readAgain)
	expectToken(t, tokens, "hf_other", TokenKeychain)
}

// Without a keychain, the token is in the file of Hugging Face's tools, which only its owner can
// read.
func TestTokenFile(t *testing.T) {
	path := isolate(t)
	keyring.MockInitWithError(errors.New("there is no keychain"))
	tokens := &Tokens{}
	if source, err := tokens.Save("hf_abc"); source != TokenFile || err != nil {
		t.Fatalf("saved in %q, %v", source, err)
	}
	expectToken(t, tokens, "hf_abc", TokenFile)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v, %v", info, err)
	}
	for range 2 {
		if _, err := tokens.Save(""); err != nil {
			t.Error(err)
		}
	}
	expectToken(t, tokens, "", NoToken)
}

// Saving replaces the token file instead of writing into it, and keeps a link to it.
func TestTokenFileIsReplaced(t *testing.T) {
	path := isolate(t)
	keyring.MockInitWithError(errors.New("there is no keychain"))
	target, old := filepath.Join(t.TempDir(), "token"), filepath.Join(t.TempDir(), "old")
	if err := errors.Join(os.WriteFile(target, []byte("hf_old"), 0o644),
		os.Link(target, old), // keeps the old text if target is replaced
		os.MkdirAll(filepath.Dir(path), 0o700), os.Symlink(target, path)); err != nil {
		t.Fatal(err)
	}
	if source, err := (&Tokens{}).Save("hf_abc"); source != TokenFile || err != nil {
		t.Fatalf("saved in %q, %v", source, err)
	}
	if to, err := os.Readlink(path); err != nil || to != target {
		t.Errorf("the link points to %q, %v", to, err)
	}
	for file, want := range map[string]string{target: "hf_abc", old: "hf_old"} {
		if text, err := os.ReadFile(file); err != nil || string(text) != want {
			t.Errorf("%s holds %q, %v; want %q", file, text, err, want)
		}
	}
	if info, err := os.Stat(target); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v, %v", info, err)
	}
}

// Without a session bus the keychain is not read, because that would start one.
func TestNoSessionBus(t *testing.T) {
	isolate(t)
	keyring.MockInit()
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "autolaunch:")
	if runtime.GOOS == "darwin" {
		t.Skip("a Mac has a keychain without D-Bus")
	}
	if source, err := (&Tokens{}).Save("hf_abc"); source != TokenFile || err != nil {
		t.Errorf("saved in %q, %v", source, err)
	}
}

// TestForeignTokenFile: a file that holds something else than a token is neither removed nor
// replaced.
func TestForeignTokenFile(t *testing.T) {
	isolate(t)
	keyring.MockInitWithError(errors.New("no keychain"))
	path := filepath.Join(t.TempDir(), "accounts.txt")
	t.Setenv("HF_TOKEN_PATH", path)
	for _, text := range []string{"bank: 1234\nmail: 5678\n",
		strings.Repeat("hf_abc\n", maxTokenFileBytes)} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if source, err := new(Tokens).Save("hf_abc"); err == nil {
			t.Errorf("saved in %q", source)
		}
		if _, err := new(Tokens).Save(""); err != nil {
			t.Error(err)
		}
		if left, err := os.ReadFile(path); err != nil || string(left) != text {
			t.Errorf("the file has %d bytes instead of %d, %v", len(left), len(text), err)
		}
	}
}
