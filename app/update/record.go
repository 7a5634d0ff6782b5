package update

// What is remembered between two runs, in a small file of the settings folder.

import (
	"encoding/json"
	"os"
	"path/filepath"

	"headroom/app/disk"
)

// record is the content of the file. All of it may be missing.
type record struct {
	CheckedAtUnixMs int64  `json:"checkedAt,omitempty"` // when the feed was last read
	TriedAtUnixMs   int64  `json:"triedAt,omitempty"`   // when that was last tried by itself
	Newest          string `json:"newest,omitempty"`    // the newest version that a feed has had

	Ready  string `json:"ready,omitempty"`  // the version in next/, verified; "": none
	Folder string `json:"folder,omitempty"` // that folder in next/
	GoBack bool   `json:"goBack,omitempty"` // previous/ is applied at quit

	// From and To are the versions that change places now. A run that finds them was preceded by
	// one that was killed meanwhile.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`

	Previous string `json:"previous,omitempty"` // the version in previous/; "": none
	// Fresh is the version that was applied last, until it has run for a while, and Starts how
	// often it was started.
	Fresh  string `json:"fresh,omitempty"`
	Starts int    `json:"starts,omitempty"`
}

const maxRecordBytes = 64 << 10

// readRecord returns the record in a file. A missing or damaged file is an empty record: the worst
// that is lost is the version before.
func readRecord(path string) (r record) {
	data, _, err := disk.Read(path, maxRecordBytes)
	if err == nil && json.Unmarshal(data, &r) != nil {
		return record{}
	}
	return r
}

// locked locks mu and reads the record again: the menu-bar app and a server of one installation
// share it. The caller calls unlock.
func (u *Updater) locked() (unlock func()) {
	u.mu.Lock()
	u.record = readRecord(u.options.File)
	return u.mu.Unlock
}

// save writes the record. The caller holds mu. The error is a Problem.
func (u *Updater) save() error {
	data, err := json.MarshalIndent(u.record, "", "  ")
	if err == nil {
		err = os.MkdirAll(filepath.Dir(u.options.File), 0o700)
	}
	if err == nil {
		err = disk.WriteFile(u.options.File, append(data, '\n'), 0o600)
	}
	if err != nil {
		return notWritten(err)
	}
	return nil
}
