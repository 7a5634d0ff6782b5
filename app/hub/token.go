package hub

// The token that says who asks. It is looked for where people and other tools keep it, and kept
// where the system keeps secrets: in a Mac's keychain (security), or the desktop's (secret-tool, of
// libsecret). Where there is neither, it is the file that Hugging Face's tools use. Programs are
// given it on their standard input, never as an argument, which others could read.

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"time"

	"headroom/engine/problem"
)

// TokenSource is where a token was found.
type TokenSource string

// The sources.
const (
	NoToken          TokenSource = ""
	TokenEnvironment TokenSource = "environment" // HF_TOKEN
	TokenKeychain    TokenSource = "keychain"
	TokenFile        TokenSource = "file"
)

// Tokens finds and keeps the token. The zero value is ready; its methods may be called from any
// goroutine.
type Tokens struct {
	// run runs a program; nil: really. The error is exec.ErrNotFound where there is none.
	run  func(ctx context.Context, stdin, name string, args ...string) (string, error)
	goos string // "": this system

	mu     sync.Mutex
	token  string
	source TokenSource
	asked  time.Time // when the keychain was asked last
}

// askAgain is how long an answer of the keychain holds: asking starts a program.
const askAgain = time.Minute

const (
	tokenService = "Headroom: Hugging Face token"
	tokenAccount = "huggingface"
	toolTime     = 10 * time.Second
)

var tokenForm = regexp.MustCompile(`^[A-Za-z0-9._~+/=-]{1,512}$`)

// Token returns the token and where it is from; "" for none.
func (t *Tokens) Token() (string, TokenSource) {
	for _, name := range []string{"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"} {
		if token := strings.TrimSpace(os.Getenv(name)); tokenForm.MatchString(token) {
			return token, TokenEnvironment
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.asked.IsZero() && time.Since(t.asked) < askAgain {
		return t.token, t.source
	}
	t.asked = time.Now()
	t.token, t.source = "", NoToken
	if token, err := t.lookUp(); err == nil && tokenForm.MatchString(token) {
		t.token, t.source = token, TokenKeychain
	} else if text, err := os.ReadFile(tokenPath()); err == nil {
		if token := strings.TrimSpace(string(text)); tokenForm.MatchString(token) {
			t.token, t.source = token, TokenFile
		}
	}
	return t.token, t.source
}

// Save keeps a token for the next requests and starts, "" removes the one that is kept. It returns
// where it is kept. The error is a Problem.
func (t *Tokens) Save(token string) (TokenSource, error) {
	token = strings.TrimSpace(token)
	if token != "" && !tokenForm.MatchString(token) {
		return NoToken, problem.New(problem.BadRequest, "This is no token",
			"it has characters that no token has",
			"Copy it from the hub's settings, under Access Tokens.")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asked = time.Time{}
	err := t.keep(token)
	if err == nil && token != "" {
		return TokenKeychain, nil
	}
	if token == "" {
		if err := os.Remove(tokenPath()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return NoToken, problem.Wrap(problem.Internal, err, "The token could not be removed",
				"")
		}
		return NoToken, nil
	}
	path := tokenPath()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700),
		os.WriteFile(path, []byte(token), 0o600), os.Chmod(path, 0o600)); err != nil {
		return NoToken, problem.Wrap(problem.Internal, err, "The token could not be kept",
			"Set HF_TOKEN in the environment instead.")
	}
	return TokenFile, nil
}

// tokenPath is where Hugging Face's tools keep it: HF_TOKEN_PATH, HF_HOME/token, or
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

func (t *Tokens) isMac() bool {
	return t.goos == "darwin" || t.goos == "" &&
		runtime.GOOS == "darwin"
}

func (t *Tokens) lookUp() (string, error) {
	if t.isMac() {
		return t.tool("", "security", "find-generic-password", "-s", tokenService, "-a",
			tokenAccount, "-w")
	}
	return t.tool("", "secret-tool", "lookup", "service", tokenService, "account", tokenAccount)
}

func (t *Tokens) keep(token string) error {
	var err error
	switch {
	case t.isMac() && token == "":
		_, err = t.tool("", "security", "delete-generic-password", "-s", tokenService, "-a",
			tokenAccount)
	case t.isMac():
		command := `add-generic-password -U -s "` + tokenService + `" -a ` + tokenAccount +
			` -w "` + token + `"` + "\n"
		_, err = t.tool(command, "security", "-i")
	case token == "":
		_, err = t.tool("", "secret-tool", "clear", "service", tokenService, "account",
			tokenAccount)
	default:
		_, err = t.tool(token, "secret-tool", "store", "--label="+tokenService, "service",
			tokenService, "account", tokenAccount)
	}
	if err == nil && token != "" { // security -i succeeds whatever its commands do
		var kept string
		if kept, err = t.lookUp(); err == nil && kept != token {
			err = errors.New("the keychain did not keep it")
		}
	}
	return err
}

func (t *Tokens) tool(stdin, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), toolTime)
	defer cancel()
	run := t.run
	if run == nil {
		run = runTool
	}
	out, err := run(ctx, stdin, name, args...)
	return strings.TrimSpace(out), err
}

func runTool(ctx context.Context, stdin, name string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, name, args...)
	command.Stdin = strings.NewReader(stdin)
	command.WaitDelay = time.Second
	out, err := command.Output()
	return string(out), err
}
