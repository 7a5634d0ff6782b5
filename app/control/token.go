package control

// The secret that tells our own windows and pages from other programs' requests: one per user, kept
// in the settings folder, readable by its owner alone.

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"headroom/app/disk"
)

// tokenBytes: 256 bits of chance, written as 64 hexadecimal digits.
const tokenBytes = 32

// SettingsDir is Headroom's folder for settings: "headroom" in the user's configuration folder.
func SettingsDir() (string, error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("finding the settings folder: %w", err)
	}
	return filepath.Join(dir, "headroom"), nil
}

// LoadToken returns the token kept in the folder, made at first use, readable by its owner alone. A
// file that holds anything but a token is replaced.
func LoadToken(dir string) (string, error) {
	path := filepath.Join(dir, "token")
	data, err := os.ReadFile(path)
	if token := strings.TrimSpace(string(data)); err == nil && isToken(token) {
		return token, os.Chmod(path, 0o600)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("reading the control token: %w", err)
	}
	token := NewToken()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("making the settings folder: %w", err)
	}
	// Atomic: two programs that start at once never read half a token.
	if err := disk.WriteFile(path, []byte(token+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("keeping the control token: %w", err)
	}
	return token, nil
}

// NewToken makes a token that is kept nowhere.
func NewToken() string {
	var b [tokenBytes]byte
	_, _ = rand.Read(b[:]) // never fails; see crypto/rand
	return hex.EncodeToString(b[:])
}

func isToken(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == tokenBytes
}
