package importer

// The journal of a copy: a line of JSON for each complete file, written after its verification. An
// interrupted copy resumes from it. Its lock keeps other programs from working on the same copy.

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"

	"headroom/app/disk"
)

// journalName is hidden, so that the journal does not become part of the model.
const journalName = ".journal"

// entry is a line of the journal.
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

// maxJournalBytes is more than a journal of maxFiles files needs.
const maxJournalBytes = 16 << 20

// openJournal opens or creates the journal of a copy. The error is disk.ErrLocked if another
// program is working on the same copy.
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

// readEntries reads the journal. It skips an incomplete line, which a crash may leave.
func readEntries(r io.Reader) map[entry]bool {
	done := map[entry]bool{}
	lines := bufio.NewScanner(io.LimitReader(r, maxJournalBytes))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e entry
		if json.Unmarshal(lines.Bytes(), &e) == nil {
			done[e] = true
		}
	}
	return done
}

// missing returns the files that the copy still lacks.
func (j *journal) missing(files []source) []source {
	var missing []source
	for _, f := range files {
		info, err := os.Lstat(filepath.Join(j.dir, f.rel))
		if err != nil || !info.Mode().IsRegular() || info.Size() != f.size || !j.done[entryOf(f)] {
			missing = append(missing, f)
		}
	}
	return missing
}

// add records that a file is complete.
func (j *journal) add(f source) error {
	line, err := json.Marshal(entryOf(f))
	if err != nil {
		return err
	}
	// The first newline ends a line that a crash left incomplete.
	if _, err := j.file.Write(append([]byte("\n"), append(line, '\n')...)); err != nil {
		return err
	}
	return j.file.Sync()
}

// remove deletes the journal of a complete copy. The lock is still held.
func (j *journal) remove() { _ = os.Remove(filepath.Join(j.dir, journalName)) }

func (j *journal) close() {
	_ = j.file.Close()
	j.lock.Unlock()
}
