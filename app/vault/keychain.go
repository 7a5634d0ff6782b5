package vault

// The login keychain of a Mac, through the system's own tool. The tool can read a key that it added
// without a question, as long as the keychain is unlocked. So all programs of Headroom can use the
// key, signed or not, and after an update. What protects it is the password of the user.
//
// go-keyring, which keeps the hub's token, replaces a secret that exists and does not tell a locked
// keychain from a missing one. A key must survive both.
//
// No test here sees a real keychain: the tests run a program that acts like the tool.

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"strings"
	"time"
)

const (
	toolPath = "/usr/bin/security"
	service  = "Headroom"
	// toolTimeout is how long the tool may take. It may ask the user for a password.
	toolTimeout = 60 * time.Second
)

// Exit codes of the tool: the last 8 bits of errSecItemNotFound, errSecDuplicateItem,
// errSecNoSuchKeychain, errSecInvalidKeychain, errSecNoDefaultKeychain. See SecBase.h.
const (
	exitNotFound          = 44
	exitDuplicate         = 45
	exitNoSuchKeychain    = 50
	exitInvalidKeychain   = 49
	exitNoDefaultKeychain = 37
)

// securityTool is the keychain of the user who runs the program.
type securityTool struct {
	account string // the settings folder, so that each installation has its own key
	path    string // "": toolPath
}

func (s *securityTool) read() (string, error) {
	out, err := s.run("", "find-generic-password", "-s", service, "-a", s.account, "-w")
	return strings.TrimSpace(out), err
}

// add passes the secret through standard input, because other users can read a program's arguments.
func (s *securityTool) add(secret string) error {
	if strings.ContainsAny(s.account, "'\\\n") {
		return fmt.Errorf("%w for a settings folder whose path, %q, the keychain's tool does not "+
			"take", errNoKeychain, s.account)
	}
	command := fmt.Sprintf("add-generic-password -s %s -a '%s' -w %s\n", service, s.account,
		secret)
	// The tool's exit code in this mode is not documented. The caller reads the key back.
	_, err := s.run(command, "-i")
	if errors.Is(err, errNoKey) {
		err = nil
	}
	return err
}

func (s *securityTool) remove() error {
	// There may be several, in several keychains.
	for range 10 {
		_, err := s.run("", "delete-generic-password", "-s", service, "-a", s.account)
		if errors.Is(err, errNoKey) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return errors.New("the keychain still has the key after it was deleted")
}

// run runs the tool and returns what it printed.
func (s *securityTool) run(input string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), toolTimeout)
	defer cancel()
	tool := exec.CommandContext(ctx, cmp.Or(s.path, toolPath), args...)
	tool.WaitDelay = time.Second
	var out, errs bytes.Buffer
	tool.Stdin, tool.Stdout, tool.Stderr = strings.NewReader(input), &out, &errs
	err := tool.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return out.String(), nil
	case ctx.Err() != nil:
		return "", fmt.Errorf("the keychain did not answer within %v: it may be asking for a "+
			"password", toolTimeout)
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("%w: %w", errNoKeychain, err)
	case !errors.As(err, &exit):
		return "", err
	}
	switch exit.ExitCode() {
	case exitNotFound:
		return "", errNoKey
	case exitDuplicate: // another program was faster
		return "", nil
	case exitNoSuchKeychain, exitInvalidKeychain, exitNoDefaultKeychain:
		return "", fmt.Errorf("%w: %s", errNoKeychain, lastLine(errs.String()))
	}
	return "", fmt.Errorf("the keychain refuses: %s (exit code %d)", lastLine(errs.String()),
		exit.ExitCode())
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}
