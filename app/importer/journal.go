package importer

// Which files of a copy are whole: a line of JSON for each, written after the file has been
// checked. It is what lets a copy go on, and its lock is what keeps two programs from the same
// copy.

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"

	"headroom/app/disk"
)

// journalName is hidden, so that it is no part of the model.
const journalName = ".journal"

// entry is one line.
type entry struct {
	File          string `json:"file"`
	Size          int64  `json:"size"`
	ChangedUnixNs int64  `json:"changed"` // of the original
}

func entryOf(f source) entry { return entry{f.rel, f.size, f.changed.UnixNano()} }

type journal struct {
	dir  string
	lock *flock.Flock
	file *os.File
	done map[entry]bool
}

// mostJournalBytes is more than mostFiles lines take.
const mostJournalBytes = 16 << 20

// openJournal reads the journal of a copy, or begins one. The error is disk.ErrLocked where another
// program is at the same copy.
func openJournal(dir string) (*journal, error) {
	path := filepath.Join(dir, journalName)
	lock, err := disk.TryLock(path)
	if err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND, 0o644)
	if err != nil {
		lock.Unlock()
		return nil, err
	}
	return &journal{dir: dir, lock: lock, file: file, done: readEntries(file)}, nil
}

// readEntries reads the lines that are whole; one that is not was being written when the program
// ended.
func readEntries(r io.Reader) map[entry]bool {
	done := map[entry]bool{}
	lines := bufio.NewScanner(io.LimitReader(r, mostJournalBytes))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e entry
		if json.Unmarshal(lines.Bytes(), &e) == nil {
			done[e] = true
		}
	}
	return done
}

// left are the files that the copy still lacks.
func (j *journal) left(files []source) []source {
	var left []source
	for _, f := range files {
		info, err := os.Lstat(filepath.Join(j.dir, f.rel))
		if err != nil || !info.Mode().IsRegular() || info.Size() != f.size || !j.done[entryOf(f)] {
			left = append(left, f)
		}
	}
	return left
}

// add notes that a file is whole.
func (j *journal) add(f source) error {
	line, err := json.Marshal(entryOf(f))
	if err != nil {
		return err
	}
	if _, err := j.file.Write(append([]byte("\n"), append(line, '\n')...)); err != nil {
		// after a line that broke off, too
		return err
	}
	return j.file.Sync()
}

// remove takes the journal away, once the copy is whole; the lock holds on.
func (j *journal) remove() { _ = os.Remove(filepath.Join(j.dir, journalName)) }

func (j *journal) close() {
	_ = j.file.Close()
	j.lock.Unlock()
}
