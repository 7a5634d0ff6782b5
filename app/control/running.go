package control

// The programs of one user find running servers through files. A server writes its address to a
// file in the folder "running" of the settings folder, and locks the file. The system releases the
// lock when the process ends, so a file that can be locked is stale.

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"github.com/gofrs/flock"

	"headroom/app/disk"
)

const (
	runningDir    = "running"
	runningSuffix = ".url"
	newSuffix     = ".new"
	maxURLBytes   = 1 << 10
)

// Announce publishes the address of a server, such as "http://127.0.0.1:11811/", until withdraw is
// called or the process ends. It removes the files of servers that were killed. dir is the settings
// folder.
func Announce(dir, url string) (withdraw func(), err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("announcing the address: %w", err)
		}
	}()
	_ = Running(dir) // removes stale files
	dir = filepath.Join(dir, runningDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	lock, err := lockedFile(dir, url+"\n")
	if err != nil {
		return nil, err
	}
	// Other programs look for runningSuffix: the file gets it once it is complete and locked.
	name := strings.TrimSuffix(lock.Path(), newSuffix) + runningSuffix
	if err := disk.Rename(lock.Path(), name); err != nil {
		return nil, errors.Join(err, os.Remove(lock.Path()), lock.Close())
	}
	return func() {
		_ = os.Remove(name)
		_ = lock.Close()
	}, nil
}

// lockedFile creates a file with this text and locks it. Its name ends in newSuffix.
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

// Running returns the addresses of the running servers, and removes stale files. dir is the
// settings folder.
func Running(dir string) []string {
	files, _ := filepath.Glob(filepath.Join(dir, runningDir, "*"+runningSuffix))
	var urls []string
	for _, name := range files {
		if url := readAnnounced(name); url != "" {
			urls = append(urls, url)
		}
	}
	return urls
}

// announcedName matches the names that Announce gives.
var announcedName = regexp.MustCompile(`^\d+` + regexp.QuoteMeta(runningSuffix) + `$`)

// readAnnounced returns the address in a file, or "" if its server has ended. It removes a stale
// file only if its name and content show that Announce wrote it.
func readAnnounced(name string) string {
	if info, err := os.Lstat(name); err != nil || !info.Mode().IsRegular() ||
		!announcedName.MatchString(filepath.Base(name)) {
		return ""
	}
	file, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return ""
	}
	defer file.Close()
	data, _ := io.ReadAll(io.LimitReader(file, maxURLBytes))
	url := strings.TrimSpace(string(data))
	if !strings.HasPrefix(url, "http://") || !strings.HasSuffix(url, "/") {
		return ""
	}
	lock := flock.New(name, flock.SetFlag(os.O_RDONLY))
	if locked, err := lock.TryRLock(); err == nil && locked {
		_ = os.Remove(name) // its server has ended
		_ = lock.Close()
		return ""
	}
	return url
}
