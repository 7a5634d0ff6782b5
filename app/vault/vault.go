// Package vault keeps the installation's key, from which the keys of the cache on SSD and of the
// chats come; see engine/seal.
//
// On a Mac the key is a generic password in the login keychain (keychain.go). Elsewhere, and on a
// Mac without a keychain, it is the file "key" in the settings folder, which only the user can
// read. A file that exists counts before the keychain.
//
// A key that cannot be read, because the keychain is locked or the user has not allowed it, is
// never replaced: what it encrypted would be lost. The caller then goes on without what needs it.
// The key is asked for again later, see Key.
package vault

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"headroom/app/disk"
	"headroom/engine/problem"
	"headroom/engine/seal"
)

// fileName is the name of the key's file in the settings folder.
const fileName = "key"

// retryAfter is how long Key returns the same error before it asks again. A question to the user
// must not come back at once.
const retryAfter = 30 * time.Second

// keychain stores one secret text.
type keychain interface {
	read() (secret string, err error) // errNoKey, errNoKeychain
	add(secret string) error          // errNoKeychain; a key that exists is not replaced
	remove() error                    // a missing key is no error
}

var (
	errNoKey      = errors.New("the keychain has no key")
	errNoKeychain = errors.New("there is no keychain")
)

// Vault is the place of the installation's key. Its methods are safe for concurrent use, also by
// other processes.
type Vault struct {
	dir   string
	chain keychain         // nil: none
	now   func() time.Time // time.Now, except in tests

	mu      sync.Mutex
	key     *seal.Key
	failure error
	failed  time.Time
}

// Open returns the vault of the installation whose settings are in dir. It reads nothing yet.
func Open(dir string) *Vault {
	v := &Vault{dir: dir, now: time.Now}
	if runtime.GOOS == "darwin" {
		v.chain = &securityTool{account: dir}
	}
	return v
}

// Key returns the key, and makes one if there is none. The error is a Problem; it is the same for
// half a minute. A nil Vault has no key.
func (v *Vault) Key() (seal.Key, error) {
	if v == nil || v.dir == "" {
		return seal.Key{}, unavailable(errors.New("there is no settings folder"))
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.key != nil {
		return *v.key, nil
	}
	if v.failure != nil && v.now().Sub(v.failed) < retryAfter {
		return seal.Key{}, v.failure
	}
	key, err := v.load(true)
	if err != nil {
		v.failure, v.failed = unavailable(err), v.now()
		return seal.Key{}, v.failure
	}
	v.key, v.failure = &key, nil
	return key, nil
}

// Destroy removes the key from the keychain, and overwrites and removes its file. Everything that
// it encrypted is then noise. The next Key makes a new one. A file that is not a key of Headroom's
// stays: the error then names it.
func (v *Vault) Destroy() error {
	if v == nil || v.dir == "" {
		return nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	unlock, err := v.lock()
	if err != nil {
		return cannotDestroy(err)
	}
	defer unlock()
	v.key, v.failure = nil, nil
	err = destroyFile(v.path())
	for _, path := range disk.Temporary(v.dir, func(name string) bool { return name == fileName }) {
		err = errors.Join(err, os.Remove(path)) // a killed program was writing it; no key is in use
	}
	if v.chain != nil {
		if removed := v.chain.remove(); !errors.Is(removed, errNoKeychain) {
			err = errors.Join(err, removed)
		}
	}
	disk.SyncDir(v.dir)
	return cannotDestroy(err)
}

// destroyFile destroys the key's file, if it holds a key, or the zeros of a destruction that was
// interrupted.
func destroyFile(path string) error {
	text, err := readFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && !isDestroyed(text) {
		_, err = parse(text)
	}
	if err != nil {
		return fmt.Errorf("%s is not a key of Headroom's, and was left: %w", path, err)
	}
	return seal.DestroyFile(path)
}

// isDestroyed reports whether text is what seal.DestroyFile makes of a key before it removes it.
func isDestroyed(text string) bool { return text == strings.Repeat("\x00", 2*seal.KeyBytes+1) }

func (v *Vault) path() string { return filepath.Join(v.dir, fileName) }

// load returns the key in the file, or else in the keychain, and makes one if both have none.
func (v *Vault) load(create bool) (seal.Key, error) {
	key, err := v.stored()
	if !errors.Is(err, errNoKey) || !create {
		return key, err
	}
	unlock, err := v.lock()
	if err != nil {
		return key, err
	}
	defer unlock()
	// Another program may have made one meanwhile.
	if key, err = v.stored(); !errors.Is(err, errNoKey) {
		return key, err
	}
	return v.create()
}

// stored returns the key; errNoKey if there is none, and there is a place for one. The zeros of a
// destruction that was interrupted are no key.
func (v *Vault) stored() (seal.Key, error) {
	text, err := readFile(v.path())
	if errors.Is(err, fs.ErrNotExist) || err == nil && isDestroyed(text) {
		err = errNoKey
		if v.chain != nil {
			text, err = v.chain.read()
		}
		if errors.Is(err, errNoKeychain) {
			err = errNoKey // create makes a file
		}
	}
	if err != nil {
		return seal.Key{}, err
	}
	return parse(text)
}

// create stores a new key and reads it back. The caller holds the lock.
func (v *Vault) create() (seal.Key, error) {
	text := hex.EncodeToString(seal.NewKey().Bytes())
	err := error(errNoKeychain)
	if v.chain != nil {
		err = v.chain.add(text)
	}
	if errors.Is(err, errNoKeychain) {
		if err = disk.WriteFile(v.path(), []byte(text+"\n"), 0o600); err == nil {
			disk.SyncDir(v.dir)
		}
	}
	if err != nil {
		return seal.Key{}, err
	}
	key, err := v.stored()
	if errors.Is(err, errNoKey) {
		err = errors.New("the new key could not be read back")
	}
	return key, err
}

// lockWait is how long lock waits. Making a key takes milliseconds, but on a Mac the keychain may
// ask the user.
const lockWait = 30 * time.Second

// lock keeps other programs from making or destroying a key. It creates the settings folder.
func (v *Vault) lock() (unlock func(), err error) {
	if err := os.MkdirAll(v.dir, 0o700); err != nil {
		return nil, err
	}
	l, err := disk.Lock(filepath.Join(v.dir, fileName+".lock"), 0o600, lockWait)
	if err != nil {
		return nil, err
	}
	return func() { _ = l.Close() }, nil
}

func parse(text string) (seal.Key, error) {
	secret, err := hex.DecodeString(strings.TrimSpace(text))
	if err != nil || len(secret) != seal.KeyBytes {
		return seal.Key{}, fmt.Errorf("what is stored is not a key: expected %d hexadecimal digits",
			2*seal.KeyBytes)
	}
	return seal.KeyOf(secret)
}

// readFile returns the text of the key's file. If others may read the file, it changes that.
func readFile(path string) (string, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is not a regular file", path)
	}
	if info.Mode().Perm()&0o077 != 0 {
		if err := f.Chmod(0o600); err != nil {
			return "", err
		}
	}
	text, err := io.ReadAll(io.LimitReader(f, 1<<10))
	return string(text), err
}

func unavailable(err error) error {
	return problem.Wrap(problem.Locked, err, "Headroom's encryption key is not available",
		"Unlock the login keychain and allow Headroom to use its key there, or check the file key "+
			"in the settings folder. The key is never replaced, because what it encrypted would "+
			"be lost.")
}

func cannotDestroy(err error) error {
	if err == nil {
		return nil
	}
	return problem.Wrap(problem.Internal, err, "The encryption key could not be removed",
		"Unlock the login keychain, and check that you may change the settings folder. Then try "+
			"again.")
}
