package hub

// The access token of the hub. It is read from the places where people and other tools keep it, and
// saved in the system's keychain: a Mac's, or the Secret Service of a Linux desktop. Without a
// keychain, it is saved in the file that Hugging Face's tools use.

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"headroom/app/disk"
	"headroom/app/keychain"
	"headroom/engine/problem"
)

// TokenSource is where a token was found.
type TokenSource string

// The sources of a token. They are tried in this order.
const (
	NoToken          TokenSource = ""
	TokenEnvironment TokenSource = "environment" // HF_TOKEN or HUGGING_FACE_HUB_TOKEN
	TokenKeychain    TokenSource = "keychain"
	TokenFile        TokenSource = "file"
)

// Tokens reads and saves the token. The zero value is ready to use. Its methods are safe for
// concurrent use.
type Tokens struct {
	mu     sync.Mutex
	token  string
	source TokenSource
	readAt time.Time // when token and source were last read
}

const (
	keychainService = "Headroom: Hugging Face token"
	keychainAccount = "huggingface"
	// readAgain is the time after which the token is read again. It is not read each time, because
	// reading a Mac's keychain starts a program.
	readAgain = time.Minute
)

var tokenForm = regexp.MustCompile(`^[A-Za-z0-9._~+/=-]{1,512}$`)

// Token returns the token and its source. The token is "" if there is none.
func (t *Tokens) Token() (string, TokenSource) {
	for _, name := range []string{"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"} {
		if token := strings.TrimSpace(os.Getenv(name)); tokenForm.MatchString(token) {
			return token, TokenEnvironment
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.readAt.IsZero() && time.Since(t.readAt) < readAgain {
		return t.token, t.source
	}
	t.readAt = time.Now()
	t.token, t.source = "", NoToken
	token, err := keychain.Get(keychainService, keychainAccount)
	if err == nil && tokenForm.MatchString(token) {
		t.token, t.source = token, TokenKeychain
	} else if text, _, err := disk.Read(tokenPath(), maxTokenFileBytes); err == nil {
		if token := strings.TrimSpace(string(text)); tokenForm.MatchString(token) {
			t.token, t.source = token, TokenFile
		}
	}
	return t.token, t.source
}

// Save saves a token, which later requests use, also after a restart. It returns where the token
// was saved. "" removes the saved token. The error is a Problem.
func (t *Tokens) Save(token string) (TokenSource, error) {
	token = strings.TrimSpace(token)
	if token != "" && !tokenForm.MatchString(token) {
		return NoToken, problem.New(problem.BadRequest, "This is not a valid token",
			"it contains characters that tokens do not have",
			"Copy it from the hub's settings, under Access Tokens.")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.readAt = time.Time{}
	if token == "" {
		return NoToken, removeToken()
	}
	if err := keychain.Set(keychainService, keychainAccount, token); err == nil {
		return TokenKeychain, nil
	}
	if err := writeTokenFile(tokenPath(), token); err != nil {
		return NoToken, problem.Wrap(problem.Internal, err, "The token could not be saved",
			"Set HF_TOKEN in the environment instead.")
	}
	return TokenFile, nil
}

// writeTokenFile replaces the token file, so that other tools never read half a token. If path is a
// link, it replaces the link's target.
func writeTokenFile(path, token string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	text, _, err := disk.Read(path, maxTokenFileBytes)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case len(text) > 0 && !tokenForm.MatchString(strings.TrimSpace(string(text))):
		return fmt.Errorf("%s holds something else than a token, and is not replaced", path)
	}
	disk.RemoveTemporary(filepath.Dir(path), func(name string) bool {
		return name == filepath.Base(path)
	})
	return disk.WriteFile(path, []byte(token), 0o600)
}

// removeToken removes the token from the keychain and the file. It ignores a keychain that has no
// token or cannot be reached.
func removeToken() error {
	_ = keychain.Delete(keychainService, keychainAccount)
	path := tokenPath()
	text, _, err := disk.Read(path, maxTokenFileBytes)
	if err != nil {
		if path == "" || errors.Is(err, fs.ErrNotExist) || errors.Is(err, disk.ErrTooLong) {
			return nil
		}
		return problem.Wrap(problem.Internal, err, "The token could not be removed",
			"Remove "+path+" by hand.")
	}
	// HF_TOKEN_PATH may name any file. Only a file that holds a token alone is removed.
	if !tokenForm.MatchString(strings.TrimSpace(string(text))) {
		return nil
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return problem.Wrap(problem.Internal, err, "The token could not be removed",
			"Remove "+path+" by hand.")
	}
	return nil
}

// maxTokenFileBytes bounds what is read of a token file. A longer file is none.
const maxTokenFileBytes = 1 << 20

// tokenPath returns the token file of Hugging Face's tools: HF_TOKEN_PATH, HF_HOME/token, or
// ~/.cache/huggingface/token.
func tokenPath() string {
	if path := os.Getenv("HF_TOKEN_PATH"); path != "" {
		return path
	}
	home := os.Getenv("HF_HOME")
	if home == "" {
		user, err := os.UserHomeDir()
		if err != nil {
			return ""
		}
		home = filepath.Join(user, ".cache", "huggingface")
	}
	return filepath.Join(home, "token")
}
