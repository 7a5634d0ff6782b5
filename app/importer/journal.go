package importer

// The journal of a copy: a line of JSON before a file is created, and one after it is complete and
// verified. An interrupted copy resumes from it. Its lock keeps other programs from working on the
// same copy. Only files that the journal names are ever removed from the copy's folder.

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gofrs/flock"

	"headroom/app/disk"
	"headroom/engine/problem"
)

// journalName is hidden, so that the journal does not become part of the model.
const journalName = ".journal"

// entry is a line of the journal.
type entry struct {
	File          string `json:"file"`
	Size          int64  `json:"size"`
	ChangedUnixNs int64  `json:"changed"` // of the original
	Begun         bool   `json:"begun,omitempty"`
}

func entryOf(f source) entry {
	return entry{File: f.rel, Size: f.size,
		ChangedUnixNs: f.changed.UnixNano()}
}

type journal struct {
	dir  string
	root *os.Root // the folder dir: no link in it leads out
	lock *flock.Flock
	file *os.File
	done map[entry]bool
	ours map[string]bool // paths in dir of the files that this journal's copies created
}

// maxJournalBytes is more than a journal of maxFiles files needs.
const maxJournalBytes = 16 << 20

// openJournal opens or creates the journal of a copy. The error is disk.ErrLocked if another
// program is working on the same copy.
func openJournal(dir string) (*journal, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	if info, err := root.Lstat(journalName); err == nil && !info.Mode().IsRegular() {
		return nil, errors.Join(errForeign(filepath.Join(dir, journalName)), root.Close())
	}
	lock, err := disk.TryLock(filepath.Join(dir, journalName), 0o644)
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	file, err := root.OpenFile(journalName, os.O_RDWR|os.O_APPEND, 0)
	if err != nil {
		return nil, errors.Join(err, lock.Unlock(), root.Close())
	}
	j := &journal{dir: dir, root: root, lock: lock, file: file, done: readEntries(file),
		ours: map[string]bool{}}
	for e := range j.done {
		j.ours[e.File] = true
	}
	return j, nil
}

// errForeign returns the Problem of a file that Headroom did not create where a copy should go.
func errForeign(path string) error {
	return problem.New(problem.Exists, "A file is in the way of the copy",
		shown(path)+" was not created by this import", "Move it elsewhere, and resume the import.")
}

// readEntries reads the journal. It skips an incomplete line, which a crash may leave.
func readEntries(r io.Reader) map[entry]bool {
	done := map[entry]bool{}
	lines := bufio.NewScanner(io.LimitReader(r, maxJournalBytes))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e entry
		if json.Unmarshal(lines.Bytes(), &e) == nil && filepath.IsLocal(e.File) {
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

// hasFiles reports whether the copy has files, whole or not.
func (j *journal) hasFiles() bool {
	for rel := range j.ours {
		if _, err := j.root.Lstat(rel); err == nil {
			return true
		}
	}
	return false
}

// prepare makes room for a file that is going to be created, and records it. It removes an earlier
// copy of the file.
func (j *journal) prepare(f source) error {
	if err := j.remove(f.rel); err != nil {
		return err
	}
	if _, err := j.root.Lstat(f.rel); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(errForeign(filepath.Join(j.dir, f.rel)), err)
	}
	if err := j.root.MkdirAll(filepath.Dir(f.rel), 0o755); err != nil {
		return err
	}
	j.ours[f.rel] = true
	e := entryOf(f)
	e.Begun = true
	return j.write(e)
}

// remove removes a file, if it is one of the copy's.
func (j *journal) remove(rel string) error {
	info, err := j.root.Lstat(rel)
	if err != nil || !info.Mode().IsRegular() || !j.ours[rel] {
		return nil
	}
	return j.root.Remove(rel)
}

// add records that a file is complete.
func (j *journal) add(f source) error { return j.write(entryOf(f)) }

func (j *journal) write(e entry) error {
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	// The first newline ends a line that a crash left incomplete.
	if _, err := j.file.Write(append([]byte("\n"), append(line, '\n')...)); err != nil {
		return err
	}
	return j.file.Sync()
}

// end removes the journal of a complete or discarded copy. The lock is still held.
func (j *journal) end() { _ = j.root.Remove(journalName) }

// discard removes the files of the copy, the journal, and the folders that are then empty. It
// returns a Problem if other files are left.
func (j *journal) discard() error {
	folders := map[string]bool{}
	for rel := range j.ours {
		if err := j.remove(rel); err != nil {
			return err
		}
		for dir := filepath.Dir(rel); dir != "."; dir = filepath.Dir(dir) {
			folders[dir] = true
		}
	}
	// The deepest first. Remove fails for a folder that is not empty. A link is not the copy's.
	for _, dir := range slices.SortedFunc(maps.Keys(folders), func(a, b string) int {
		return depthOf(b) - depthOf(a)
	}) {
		if info, err := j.root.Lstat(dir); err == nil && info.IsDir() {
			_ = j.root.Remove(dir)
		}
	}
	j.end()
	if err := os.Remove(j.dir); err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	left, _ := os.ReadDir(j.dir)
	names := make([]string, 0, len(left))
	for _, e := range left[:min(len(left), 3)] {
		names = append(names, shown(e.Name()))
	}
	return problem.New(problem.Exists, "The unfinished copy has files that are not its own",
		"they were kept: "+strings.Join(names, ", "), "Look at "+j.dir+" yourself.")
}

func (j *journal) close() {
	_ = j.file.Close()
	j.lock.Unlock()
	_ = j.root.Close()
}
