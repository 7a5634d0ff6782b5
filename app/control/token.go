package control

// The token is a secret that tells requests of Headroom's own windows and pages from those of other
// programs. Each user has one, in a file of the settings folder that only the user can read.

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"headroom/app/disk"
)

// tokenBytes is the length of a token: 256 random bits, written as 64 hexadecimal digits.
const tokenBytes = 32

// maxTokenFile is the longest file that LoadToken copies to make room for a token.
const maxTokenFile = 1 << 20

// SettingsDir returns Headroom's settings folder: "headroom" in os.UserConfigDir.
func SettingsDir() (string, error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("finding the settings folder: %w", err)
	}
	return filepath.Join(dir, "headroom"), nil
}

// LoadToken returns the token in the settings folder dir. It creates the token on first use, in a
// file with mode 0600. It replaces a file that holds anything else, after copying it to
// token.set-aside-1, or 2 if that exists, and so on.
func LoadToken(dir string) (string, error) {
	path := filepath.Join(dir, "token")
	data, _, err := disk.Read(path, maxTokenFile)
	if token := strings.TrimSpace(string(data)); err == nil && isToken(token) {
		return token, os.Chmod(path, 0o600)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("reading the control token: %w; move it to another folder if it is "+
			"not Headroom's", err)
	}
	if len(bytes.TrimSpace(data)) > 0 {
		copied, err := disk.KeepCopy(path, "set-aside", data)
		if err != nil {
			return "", fmt.Errorf("%s is not a token of Headroom's, and copying it failed: %w",
				path, err)
		}
		slog.Warn("the file token in the settings folder was not a token of Headroom's; it was "+
			"replaced", "copy", copied)
	}
	token := NewToken()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("creating the settings folder: %w", err)
	}
	// Atomic, so that two programs that start at once never read half a token.
	if err := disk.WriteFile(path, []byte(token+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("writing the control token: %w", err)
	}
	return token, nil
}

// NewToken returns a random token without saving it.
func NewToken() string {
	var b [tokenBytes]byte
	_, _ = rand.Read(b[:]) // never fails; see crypto/rand
	return hex.EncodeToString(b[:])
}

func isToken(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == tokenBytes
}
