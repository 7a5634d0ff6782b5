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
	"syscall"
)

const (
	runningDir    = "running"
	runningSuffix = ".url"
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
	file, err := os.CreateTemp(dir, "*.new") // mode 0600
	if err != nil {
		return nil, err
	}
	name := strings.TrimSuffix(file.Name(), ".new") + runningSuffix
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX)
	if err == nil {
		_, err = file.WriteString(url + "\n")
	}
	if err == nil { // locked and written before anybody looks
		err = os.Rename(file.Name(), name)
	}
	if err != nil {
		return nil, errors.Join(err, os.Remove(file.Name()), file.Close())
	}
	return func() {
		_ = os.Remove(name)
		_ = file.Close() // the lock with it
	}, nil
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
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_SH|syscall.LOCK_NB); err == nil {
		_ = os.Remove(name) // nobody holds it
		return ""
	}
	data, _ := io.ReadAll(io.LimitReader(file, maxURLBytes))
	url := strings.TrimSpace(string(data))
	if !strings.HasPrefix(url, "http://") || !strings.HasSuffix(url, "/") {
		return ""
	}
	return url
}
