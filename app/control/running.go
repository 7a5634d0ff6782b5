package control

// How programs of one user find the servers that run: each announces its address in a file under
// "running" in the settings folder, and holds a lock on it. The lock goes with its process however
// that ends, so a file that can be locked is a leftover.

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"
)

const (
	runningDir    = "running"
	runningSuffix = ".url"
	newSuffix     = ".new"
	maxURLBytes   = 1 << 10
)

// Announce makes a server's address ("http://127.0.0.1:11811/") known until withdraw is called or
// the process ends. dir is the settings folder.
func Announce(dir, url string) (withdraw func(), err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("announcing the address: %w", err)
		}
	}()
	dir = filepath.Join(dir, runningDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	lock, err := lockedFile(dir, url+"\n")
	if err != nil {
		return nil, err
	}
	// The file is locked and complete before it gets a name that others look for.
	name := strings.TrimSuffix(lock.Path(), newSuffix) + runningSuffix
	if err := os.Rename(lock.Path(), name); err != nil {
		return nil, errors.Join(err, os.Remove(lock.Path()), lock.Close())
	}
	return func() {
		_ = os.Remove(name)
		_ = lock.Close()
	}, nil
}

// lockedFile creates a file that holds text, and locks it. Its name ends in newSuffix.
func lockedFile(dir, text string) (*flock.Flock, error) {
	file, err := os.CreateTemp(dir, "*"+newSuffix) // mode 0600
	if err != nil {
		return nil, err
	}
	_, err = file.WriteString(text)
	lock := flock.New(file.Name(), flock.SetFlag(os.O_RDWR))
	if err = errors.Join(err, file.Close()); err == nil {
		err = lock.Lock()
	}
	if err != nil {
		return nil, errors.Join(err, os.Remove(file.Name()))
	}
	return lock, nil
}

// Running lists the addresses of the servers that are announced and alive, and clears away
// leftovers.
func Running(dir string) []string {
	files, _ := filepath.Glob(filepath.Join(dir, runningDir, "*"+runningSuffix))
	var urls []string
	for _, name := range files {
		if url := announced(name); url != "" {
			urls = append(urls, url)
		}
	}
	return urls
}

// announced reads an announcement; "" if its server is gone.
func announced(name string) string {
	file, err := os.Open(name)
	if err != nil {
		return ""
	}
	defer file.Close()
	lock := flock.New(name, flock.SetFlag(os.O_RDONLY))
	if unheld, err := lock.TryRLock(); err == nil && unheld {
		_ = os.Remove(name) // its server is gone
		_ = lock.Close()
		return ""
	}
	data, _ := io.ReadAll(io.LimitReader(file, maxURLBytes))
	url := strings.TrimSpace(string(data))
	if !strings.HasPrefix(url, "http://") || !strings.HasSuffix(url, "/") {
		return ""
	}
	return url
}
