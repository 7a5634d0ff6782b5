package hub

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// keychain plays the programs that keep secrets; it remembers what it was given as arguments, which
// others could read.
type keychain struct {
	secret string
	gone   bool // there is no such program
	shown  []string
}

func (k *keychain) run(_ context.Context, stdin, name string, args ...string) (string, error) {
	if k.gone {
		return "", exec.ErrNotFound
	}
	k.shown = append(k.shown, name+" "+strings.Join(args, " "))
	switch args[0] {
	case "find-generic-password", "lookup":
		if k.secret == "" {
			return "", &exec.ExitError{}
		}
		return k.secret + "\n", nil
	case "-i":
		_, rest, _ := strings.Cut(stdin, ` -w "`)
		k.secret, _, _ = strings.Cut(rest, `"`)
	case "store":
		k.secret = stdin
	case "clear", "delete-generic-password":
		k.secret = ""
	}
	return "", nil
}

func lonely(t *testing.T) string {
	home := t.TempDir()
	for name, value := range map[string]string{"HOME": home, "HF_HOME": "", "HF_TOKEN": "",
		"HUGGING_FACE_HUB_TOKEN": "", "HF_TOKEN_PATH": ""} {
		t.Setenv(name, value)
	}
	return filepath.Join(home, ".cache", "huggingface", "token")
}

func TestTokens(t *testing.T) {
	for _, goos := range []string{"darwin", "linux"} {
		lonely(t)
		k := &keychain{}
		tokens := &Tokens{run: k.run, goos: goos}
		expect := func(want string, source TokenSource) {
			t.Helper()
			if got, from := tokens.Token(); got != want || from != source {
				t.Errorf("%s: token %q from %q, want %q from %q", goos, got, from, want, source)
			}
		}
		expect("", NoToken)
		if source, err := tokens.Save(" hf_abc\n"); source != TokenKeychain || err != nil {
			t.Errorf("%s: kept in %q, %v", goos, source, err)
		}
		expect("hf_abc", TokenKeychain)
		asked := len(k.shown)
		expect("hf_abc", TokenKeychain)
		if len(k.shown) != asked {
			t.Errorf("%s: the keychain is asked each time", goos)
		}
		if all := strings.Join(k.shown, "\n"); strings.Contains(all, "hf_abc") {
			t.Errorf("%s: the token can be read by others: %s", goos, all)
		}
		t.Setenv("HF_TOKEN", "hf_env")
		expect("hf_env", TokenEnvironment)
		t.Setenv("HF_TOKEN", "")
		if _, err := tokens.Save(""); err != nil {
			t.Error(err)
		}
		expect("", NoToken)
		if _, err := tokens.Save(`hf" -s other`); err == nil {
			t.Errorf("%s: kept what is no token", goos)
		}
	}
}

// Without a keychain it is the file that Hugging Face's tools share, which nobody else may read.
func TestTokenFile(t *testing.T) {
	path := lonely(t)
	tokens := &Tokens{run: (&keychain{gone: true}).run, goos: "linux"}
	if source, err := tokens.Save("hf_abc"); source != TokenFile || err != nil {
		t.Fatalf("kept in %q, %v", source, err)
	}
	if got, from := tokens.Token(); got != "hf_abc" || from != TokenFile {
		t.Errorf("token %q from %q", got, from)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v, %v", info, err)
	}
	for range 2 {
		if _, err := tokens.Save(""); err != nil {
			t.Error(err)
		}
	}
	if got, _ := tokens.Token(); got != "" {
		t.Errorf("token %q is left", got)
	}
}
