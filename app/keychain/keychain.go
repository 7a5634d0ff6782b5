// Package keychain keeps short secrets in the system's keychain: a Mac's, or the Secret Service of
// a Linux desktop. It stands between the programs and go-keyring, which waits for an answer forever
// and may start a session bus.
//
// app/vault has its own access: a lost encryption key costs more than a lost token.
package keychain

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/zalando/go-keyring"
)

// timeout bounds a request: a locked keychain shows a dialog that nobody may answer.
const timeout = 10 * time.Second

// Get returns the secret of an account of a service. It fails if there is none, or no keychain.
func Get(service, account string) (string, error) {
	return within(func() (string, error) { return keyring.Get(service, account) })
}

// Set saves a secret, which replaces that of the account. It reads the secret back, since a Mac's
// security tool reports no failure.
func Set(service, account, secret string) error {
	saved, err := within(func() (string, error) {
		if err := keyring.Set(service, account, secret); err != nil {
			return "", err
		}
		return keyring.Get(service, account)
	})
	if err == nil && saved != secret {
		err = errors.New("the keychain returned a different secret than was saved")
	}
	return err
}

// Delete removes a secret. It fails if there is none, or no keychain.
func Delete(service, account string) error {
	_, err := within(func() (string, error) { return "", keyring.Delete(service, account) })
	return err
}

// within runs a request to the keychain, for at most timeout.
func within(request func() (string, error)) (string, error) {
	if !reachable() {
		return "", keyring.ErrUnsupportedPlatform
	}
	type result struct {
		secret string
		err    error
	}
	done := make(chan result, 1)
	go func() {
		secret, err := request()
		done <- result{secret, err}
	}()
	select {
	case r := <-done:
		return r.secret, r.err
	case <-time.After(timeout):
		return "", errors.New("the keychain does not answer")
	}
}

// reachable reports whether the keychain can be reached without starting a session bus. The D-Bus
// package would start one, and leave it running.
func reachable() bool {
	if runtime.GOOS == "darwin" {
		return true
	}
	if address := os.Getenv("DBUS_SESSION_BUS_ADDRESS"); address != "" {
		return address != "autolaunch:"
	}
	_, err := os.Stat(fmt.Sprintf("/run/user/%d/bus", os.Getuid()))
	return err == nil
}
