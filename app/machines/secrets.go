package machines

// The API keys that other machines want. They are in the system's keychain; without one, in a file
// beside the list, which only the user can read.

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"headroom/app/disk"
	"headroom/app/keychain"
	"headroom/engine/problem"
)

const (
	secretsName     = "machine-keys.json"
	keychainService = "Headroom: other machines"
	maxSecretBytes  = 4096
)

// Secret returns the API key that a machine wants; "" if it wants none. The error is a Problem.
func (s *Store) Secret(m Machine) (string, error) {
	if !m.HasSecret {
		return "", nil
	}
	s.mu.Lock()
	secret, known := s.secrets[m.ID]
	info := s.info
	s.mu.Unlock()
	if known {
		return secret, nil
	}
	// The keychain may ask the user, so others do not wait for it.
	secret, err := keychain.Get(keychainService, s.account(m.ID))
	if err != nil {
		var inFile map[string]string
		inFile, fileErr := s.readSecrets()
		if secret = inFile[m.ID]; secret == "" {
			return "", problem.Wrap(problem.Locked, errors.Join(err, fileErr),
				fmt.Sprintf("The API key of the machine %q cannot be read", m.Name),
				"Unlock the keychain, or add the machine again with its key.")
		}
	}
	s.mu.Lock()
	if s.info == info { // else the key may have been replaced meanwhile
		s.secrets[m.ID] = secret
	}
	s.mu.Unlock()
	return secret, nil
}

// account returns the name of a machine's key in the keychain. Installations with other settings
// folders have keys of their own.
func (s *Store) account(id string) string {
	sum := sha256.Sum256([]byte(s.dir))
	return id + "." + hex.EncodeToString(sum[:4])
}

// restorer returns a function that restores the API key that the machine with an ID has now, after
// one that could not be added in its place. That function runs with mu and the folder locked.
func (s *Store) restorer(id string) func() {
	var old string
	if m, err := s.Named(id); err == nil && m.ID == id {
		if old, err = s.Secret(m); err != nil {
			return func() {} // nobody can read it: removing it would only make that final
		}
	}
	return func() { _ = s.setSecret(id, old) } // the error is that of what failed before
}

// setSecret saves the API key of a machine; "" removes it. mu and the folder are locked.
func (s *Store) setSecret(id, secret string) error {
	inFile, err := s.readSecrets()
	if err != nil {
		return s.unreadSecrets(err)
	}
	_, wasInFile := inFile[id]
	delete(s.secrets, id)
	delete(inFile, id)
	if secret == "" {
		_ = keychain.Delete(keychainService, s.account(id)) // it may have none, or not be there
	} else if keychain.Set(keychainService, s.account(id), secret) != nil {
		inFile[id] = secret
	}
	if !wasInFile && inFile[id] == "" {
		return nil
	}
	text, err := json.MarshalIndent(inFile, "", "  ")
	if err == nil {
		err = disk.WriteFile(filepath.Join(s.dir, secretsName), append(text, '\n'), 0o600)
	}
	if err != nil {
		return problem.Wrap(problem.Internal, err, "The machine's API key could not be saved",
			"Check that the folder "+s.dir+" can be written to.")
	}
	return nil
}

func (s *Store) unreadSecrets(err error) error {
	return problem.Wrap(problem.Internal, err, "The machine's API key cannot be changed",
		"Repair or remove "+filepath.Join(s.dir, secretsName)+".")
}

// readSecrets returns the API keys in the file, by machine ID.
func (s *Store) readSecrets() (map[string]string, error) {
	list := map[string]string{}
	data, _, err := disk.Read(filepath.Join(s.dir, secretsName), maxBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return list, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &list)
	}
	if list == nil {
		list = map[string]string{} // the file has null
	}
	return list, err
}

// cleanSecret returns an API key without the spaces around it. The error is a Problem.
func cleanSecret(secret string) (string, error) {
	if secret = strings.TrimSpace(secret); !sendable(secret) {
		return "", problem.New(problem.BadRequest, "The machine's API key is not valid",
			"no request can send it: it has a space or a control character",
			"Copy it again from where it was made.")
	}
	return secret, nil
}

// sendable reports whether a header of a request can have the secret.
func sendable(secret string) bool {
	return len(secret) <= maxSecretBytes && !strings.ContainsFunc(secret, func(r rune) bool {
		return r <= ' ' || r > '~'
	})
}
