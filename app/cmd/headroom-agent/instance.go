package main

// One agent per user. The first agent locks a file and writes its address into it. A second agent
// finds the file locked, asks the first over the control API to open its window, and exits.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/gofrs/flock"

	"headroom/app/control"
	"headroom/app/disk"
)

// instance is the lock of the running agent. The system releases it when the program ends in any
// way. The file stays; while it is locked, it contains the agent's address.
type instance struct{ lock *flock.Flock }

var errClaimed = errors.New("another agent is running")

// claim takes the lock, or fails with errClaimed.
func claim(dir string) (*instance, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the settings folder: %w", err)
	}
	lock, err := disk.TryLock(lockPath(dir), 0o600)
	if errors.Is(err, disk.ErrLocked) {
		return nil, errClaimed
	}
	if err != nil {
		return nil, fmt.Errorf("checking whether Headroom is already running: %w", err)
	}
	// Remove the address of an earlier agent.
	if err := clearAddress(lockPath(dir)); err != nil {
		return nil, errors.Join(fmt.Errorf("locking %s: %w", lockPath(dir), err), lock.Close())
	}
	return &instance{lock}, nil
}

// addressPrefix begins every address that an agent writes.
const addressPrefix = "http://127.0.0.1:"

// clearAddress empties the locked file, unless it holds something else than an agent's address.
func clearAddress(path string) error {
	file, err := os.OpenFile(path, os.O_RDWR|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	text := make([]byte, len(addressPrefix))
	n, err := io.ReadFull(file, text)
	if n == 0 && errors.Is(err, io.EOF) {
		return nil
	}
	if string(text[:n]) != addressPrefix {
		return errors.New("it is not the lock file of an agent. Move it elsewhere")
	}
	return file.Truncate(0)
}

func lockPath(dir string) string { return filepath.Join(dir, "agent.lock") }

// announce writes the address of this agent into the locked file.
func (i *instance) announce(url string) error {
	if err := os.WriteFile(i.lock.Path(), []byte(url+"\n"), 0o600); err != nil {
		return fmt.Errorf("writing the agent's address: %w", err)
	}
	return nil
}

func (i *instance) release() {
	_ = clearAddress(i.lock.Path())
	_ = i.lock.Close()
}

// showTimeout is how long a second agent waits for a first one that is still starting.
const showTimeout = 5 * time.Second

// showFirst asks the running agent to open its window.
func showFirst(dir string) error {
	token, err := control.LoadToken(dir)
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(context.Background(), showTimeout)
	defer stop()
	for {
		url, err := addressOfFirst(dir)
		if err == nil {
			err = askToShow(ctx, url, token)
		}
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("asking the running Headroom to open its window: %w", err)
		case <-time.After(showTimeout / 50):
		}
	}
}

// addressOfFirst returns the address that the running agent has written.
func addressOfFirst(dir string) (string, error) {
	data, _, err := disk.Read(lockPath(dir), 1<<10)
	url := strings.TrimSpace(string(data))
	if err == nil && !strings.HasPrefix(url, addressPrefix) {
		err = fmt.Errorf("%s names no address on this machine: %q", lockPath(dir), url)
	}
	return url, err
}

func askToShow(ctx context.Context, url, token string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"control/window/show", nil)
	if err != nil {
		return err
	}
	request.Header.Set(control.TokenHeader, token)
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusNoContent {
		body, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<10))
		return fmt.Errorf("it answered %s: %s", answer.Status, strings.TrimSpace(string(body)))
	}
	return nil
}
