package blockstore

// The marker of a move, in its new folder.

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const markName = "moving.json"

// mark is the content of the marker file in the new folder.
type mark struct {
	From  string `json:"from"`
	Whole bool   `json:"whole"`
	// IndexTime is the old index's modification time at Settle, in nanoseconds since 1970. If it is
	// unchanged, the old folder has not been used since.
	IndexTime int64 `json:"indexTime"`
	// Own reports whether a store has created the old folder.
	Own bool `json:"own,omitempty"`
}

// readMark returns the marker of a folder; nil if it has none.
func readMark(dir string) (*mark, error) {
	const limit = 64 << 10
	b, err := readStart(filepath.Join(dir, markName), limit)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var known mark
	if err == nil {
		err = json.Unmarshal(b, &known)
	} else if d := (damage{}); !errors.As(err, &d) {
		return nil, err
	}
	if err == nil && !filepath.IsAbs(known.From) {
		err = fmt.Errorf("%q is not an absolute path", known.From)
	}
	if err != nil {
		return nil, fmt.Errorf("blockstore: %s is not the marker file of a move: %w",
			filepath.Join(dir, markName), err)
	}
	return &known, nil
}

// write replaces the marker file. The rename goes through disk, so that tests can make it fail.
func (m *Move) write(k mark) error {
	b, err := json.Marshal(k)
	if err != nil {
		return err
	}
	path := filepath.Join(m.To, markName)
	if err := errors.Join(checkFree(path), checkFree(path+copySuffix)); err != nil {
		return err
	}
	const flags = os.O_CREATE | os.O_TRUNC | os.O_WRONLY | unix.O_NOFOLLOW
	f, err := os.OpenFile(path+copySuffix, flags, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return m.files().Rename(path+copySuffix, path)
}

// removeMark removes the marker of a folder. A file of that name that is no marker stays.
func removeMark(files disk, dir string) error {
	if known, err := readMark(dir); known == nil || err != nil {
		return nil
	}
	return removeFile(files, filepath.Join(dir, markName))
}

func (m *Move) unmark() error { return removeMark(osDisk{}, m.To) }
