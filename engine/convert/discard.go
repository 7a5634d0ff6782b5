package convert

// Removing a conversion that was stopped: the files that its record names, and nothing else.

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"headroom/app/disk"
	"headroom/engine/problem"
)

// created returns the names of the files that the conversion creates in its folder.
func (c *conversion) created() ([]string, error) {
	names := []string{indexFile, "README.md", "config.json"}
	if c.sample != nil {
		names = append(names, calibratedFile)
	}
	for _, s := range c.shards {
		names = append(names, s.name, s.name+partial)
	}
	beside, err := c.fileNames()
	for _, name := range beside {
		if isCopied(name) {
			names = append(names, name)
		}
	}
	return names, err
}

// Discard removes what a conversion that was stopped has left in dest, and dest if nothing else is
// there. Links and folders stay, and so does a folder that no conversion has begun or that one has
// completed. The error is a Problem if a conversion is writing to it.
func Discard(dest string) error {
	s, found := readState(dest)
	if !found {
		return nil
	}
	lock, err := lockFolder(dest)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Unlock() }()
	return removeCreated(dest, append(s.Files, stateFile, lockFile), "unfinished conversion")
}

// removeCreated removes files that a conversion has made, and then the folder. what is what they
// are, for errors.
func removeCreated(dest string, names []string, what string) error {
	root, err := os.OpenRoot(dest)
	if err != nil {
		return wrap(err, "The "+what+" cannot be removed")
	}
	defer root.Close()
	for _, name := range names {
		info, err := root.Lstat(name)
		if err == nil && info.Mode().IsRegular() {
			err = root.Remove(name)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return wrap(err, "The "+what+" cannot be removed")
		}
	}
	if err := os.Remove(dest); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return problem.New(problem.Exists,
			"The "+what+" has files that are not its own", "they were kept",
			"Look at "+dest+" yourself.")
	}
	disk.SyncDir(filepath.Dir(dest))
	return nil
}
