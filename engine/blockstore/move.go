package blockstore

// This file moves a store to another folder. Copy transfers the entries while the store is in use:
// by hard links within one disk, otherwise by copies that are read back. Once no process has the
// store open, Settle transfers the pins, the index and all changes since Copy. Both folders are
// then complete, and the caller can switch to the new one in the settings. After that, Clear
// empties the old one.
//
// A marker file in the new folder records the progress. A crash is safe at any point:
//
//   - The old folder stays complete until Clear, which removes no entry that the new folder lacks.
//   - A folder whose marker does not say "whole" is an unfinished copy. Copy continues it, and
//     DiscardMove removes it.
//   - If the marker of the folder in the settings says "whole", the move still needs Clear; see
//     FinishMove.

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"headroom/engine/seal"
)

const (
	copySuffix  = ".moving" // of unfinished files
	moveReserve = 1 << 20   // bytes for folders and the marker
)

// Errors of a move that callers can test for with errors.Is.
var (
	ErrInUse    = errors.New("blockstore: another program has the store open")
	ErrOccupied = errors.New("blockstore: the folder already has a store")
	ErrNotEmpty = errors.New("blockstore: the folder is not empty")
	ErrNested   = errors.New("blockstore: one folder is inside the other")
)

// NoRoom is the error of a move to a disk that is too small. Its fields are in bytes.
type NoRoom struct{ Need, Free int64 }

func (e *NoRoom) Error() string {
	return fmt.Sprintf("blockstore: the copy needs %d bytes, and the disk has %d available",
		e.Need, e.Free)
}

// Move moves a store from one folder to another. From and To are absolute paths and required.
type Move struct {
	From, To     string
	MinFreeBytes int64 // free space to keep on the new disk
	AlwaysCopy   bool  // copy even if hard links would work
	// Found, if not nil, is called for each entry that is already in place, and Moved for each
	// entry that Copy has transferred.
	Found, Moved func(bytes int64)

	disk disk // nil: osDisk
}

func (m *Move) files() disk {
	if m.disk == nil {
		return osDisk{}
	}
	return m.disk
}

// entryFile is the file of an entry.
type entryFile struct {
	rel  string // under the store's folder
	size int64
}

// filesOf returns the entries in a folder. If partial is true, it includes unfinished copies.
func filesOf(dir string, partial bool) ([]entryFile, error) {
	var files []entryFile
	err := filepath.WalkDir(filepath.Join(dir, blocksDir),
		func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return ignoreGone(err)
			}
			_, ok := entryAt(dir, path)
			if partial && !ok {
				_, ok = entryAt(dir, strings.TrimSuffix(path, copySuffix))
			}
			if !ok {
				return nil
			}
			info, err := d.Info()
			if err != nil {
				return ignoreGone(err)
			}
			rel, err := filepath.Rel(dir, path)
			files = append(files, entryFile{rel, info.Size()})
			return err
		})
	return files, ignoreGone(err)
}

// Bytes returns the size of all entries to move.
func (m *Move) Bytes() (total int64, err error) {
	files, err := filesOf(m.From, false)
	for _, f := range files {
		total += f.size
	}
	return total, err
}

// Check reports whether the store can move to the new folder, which must be missing, empty or have
// an unfinished copy. It changes nothing. The error wraps ErrNested, ErrOccupied or ErrNotEmpty, is
// a *NoRoom, or comes from the file system.
func (m *Move) Check() error {
	from, to := realPath(m.From), realPath(m.To)
	if from == to || within(from, to) || within(to, from) {
		return ErrNested
	}
	known, err := readMark(m.To)
	switch {
	case err != nil:
		return err
	case known != nil && realPath(known.From) != from:
		return ErrOccupied
	}
	if known == nil {
		if err := checkEmpty(m.To); err != nil {
			return err
		}
	}
	if path := filepath.Join(m.To, keysName); !isKeys(path) {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			return errors.Join(ErrOccupied, err) // a file of others
		}
	}
	if m.links() {
		return nil
	}
	files, err := filesOf(m.From, false)
	if err != nil {
		return err
	}
	return m.room(files)
}

// checkEmpty returns an error if a folder has more than the files of a move that has just begun.
func checkEmpty(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		switch path := filepath.Join(dir, e.Name()); {
		case Exists(dir):
			return ErrOccupied
		case e.Name() == lockName && isLock(path),
			e.Name() == markName+copySuffix && e.Type().IsRegular():
		default:
			return fmt.Errorf("%w: it has %s", ErrNotEmpty, path)
		}
	}
	return ignoreGone(err)
}

// links reports whether both folders are on one disk. A disk may still not support hard links; the
// first one then fails.
func (m *Move) links() bool {
	var a, b unix.Stat_t
	return !m.AlwaysCopy && unix.Stat(m.From, &a) == nil && unix.Stat(existing(m.To), &b) == nil &&
		a.Dev == b.Dev
}

// room returns a *NoRoom if the new disk is too small for the files that it lacks.
func (m *Move) room(files []entryFile) error {
	need := int64(moveReserve)
	if info, err := os.Stat(filepath.Join(m.From, indexName)); err == nil {
		need += info.Size()
	}
	for _, f := range files {
		if !m.has(f) {
			need += f.size
		}
	}
	free, err := m.files().FreeBytes(existing(m.To))
	if err != nil {
		return err
	}
	if free -= max(m.MinFreeBytes, 0); free < need {
		return &NoRoom{need, max(free, 0)}
	}
	return nil
}

// has reports whether the new folder has the entry. Files get their names only when complete.
func (m *Move) has(f entryFile) bool {
	info, err := os.Lstat(filepath.Join(m.To, f.rel))
	return err == nil && info.Mode().IsRegular() && info.Size() == f.size
}

// Copy transfers the entries that the new folder lacks. The store may be in use during Copy. Call
// Settle once it is closed. Copy returns soon after ctx ends.
func (m *Move) Copy(ctx context.Context) error {
	if err := m.Check(); err != nil {
		return err
	}
	if err := makeFolder(m.files(), m.To); err != nil {
		return err
	}
	if err := m.write(mark{From: m.From}); err != nil {
		return err
	}
	if err := m.files().MkdirAll(filepath.Join(m.To, blocksDir)); err != nil {
		return err
	}
	return m.entries(ctx)
}

func (m *Move) entries(ctx context.Context) error {
	files, err := filesOf(m.From, false)
	if err != nil {
		return err
	}
	links := m.links()
	for i, f := range files {
		if err := ctx.Err(); err != nil {
			return err
		}
		if m.has(f) {
			notify(m.Found, f.size)
			continue
		}
		from, to := filepath.Join(m.From, f.rel), filepath.Join(m.To, f.rel)
		if err := m.files().MkdirAll(filepath.Dir(to)); err != nil {
			return err
		}
		if err := checkFree(to); err != nil {
			return err
		}
		if links {
			_ = removeFile(osDisk{}, to) // an entry of another size is damaged
			err := os.Link(from, to)
			if err == nil {
				notify(m.Moved, f.size)
			}
			if err == nil || errors.Is(err, fs.ErrNotExist) {
				continue
			}
			links = false
			if err := m.room(files[i:]); err != nil {
				return err
			}
		}
		switch err := m.copyFile(ctx, from, to); {
		case errors.Is(err, fs.ErrNotExist): // evicted since it was listed
		case err != nil:
			return err
		default:
			notify(m.Moved, f.size)
		}
	}
	return nil
}

func notify(f func(int64), n int64) {
	if f != nil {
		f(n)
	}
}

// copyFile copies a file under a temporary name, reads the copy back to verify it, and renames it.
func (m *Move) copyFile(ctx context.Context, from, to string) (err error) {
	in, err := osDisk{}.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	part := to + copySuffix
	if err := errors.Join(checkFree(to), checkFree(part)); err != nil {
		return err
	}
	if err := removeFile(osDisk{}, part); err != nil {
		return err
	}
	out, err := m.files().Create(part)
	if err != nil {
		// Not wrapped: to callers, fs.ErrNotExist means an evicted entry.
		return fmt.Errorf("%v", err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(part)
		}
	}()
	sum := sha256.New()
	_, err = io.Copy(io.MultiWriter(out, sum), &contextReader{ctx, in})
	if err == nil {
		err = out.Sync()
	}
	if err = errors.Join(err, out.Close()); err != nil {
		return err
	}
	written, err := m.files().Open(part)
	if err != nil {
		return fmt.Errorf("%v", err)
	}
	defer written.Close()
	again := sha256.New()
	if _, err = io.Copy(again, &contextReader{ctx, written}); err != nil {
		return err
	}
	if !bytes.Equal(sum.Sum(nil), again.Sum(nil)) {
		return fmt.Errorf(
			"blockstore: verifying %s: the disk returns different bytes than were written", part)
	}
	if info, err := in.Stat(); err == nil {
		// A rebuilt index derives recency from the modification time.
		_ = os.Chtimes(part, info.ModTime(), info.ModTime())
	}
	return m.files().Rename(part, to)
}

// contextReader reads until ctx ends.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (u *contextReader) Read(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.r.Read(p)
}

// Settle completes the new folder with the changes since Copy, the pins and the index. No process
// may open either folder during Settle. The error is ErrInUse if a process has the old one open.
func (m *Move) Settle(ctx context.Context) error {
	if err := checkUnused(m.From); err != nil {
		return err
	}
	if err := m.Copy(ctx); err != nil { // it also marks the new folder as incomplete
		return err
	}
	if err := m.removeStrays(); err != nil {
		return err
	}
	if err := m.pins(); err != nil {
		return err
	}
	if err := checkpoint(m.From); err != nil {
		return err
	}
	if err := m.keys(ctx); err != nil {
		return err
	}
	index := filepath.Join(m.From, indexName)
	if err := m.copyFile(ctx, index, filepath.Join(m.To, indexName)); err != nil {
		return err
	}
	info, err := os.Stat(index)
	if err != nil {
		return err
	}
	m.syncFolders()
	return m.write(mark{From: m.From, Whole: true, IndexTime: info.ModTime().UnixNano(),
		Own: isOwnFolder(m.From)})
}

// checkpoint writes the index's write-ahead log into the index.
func checkpoint(dir string) error {
	lock, err := lockFile(filepath.Join(dir, lockName), lockWait)
	if err != nil {
		return err
	}
	defer lock.Close()
	temp := filepath.Join(dir, tempDir, newOwner()+".1") // no store is open
	x, err := openIndex(dir, temp, Encrypted(dir), false)
	if err != nil {
		return err
	}
	return x.close() // checkpoints
}

// keys replaces the new folder's file of slots, if it has one from an earlier Settle, with the old
// folder's.
func (m *Move) keys(ctx context.Context) error {
	to := filepath.Join(m.To, keysName)
	if isKeys(to) {
		if err := seal.DestroyFile(to); err != nil {
			return err
		}
	}
	if !Encrypted(m.From) {
		return nil
	}
	return m.copyFile(ctx, filepath.Join(m.From, keysName), to)
}

// destroyEntry destroys the key of an entry in the folder dir, and removes its file.
func (m *Move) destroyEntry(dir string, slots seal.SlotFile, f entryFile) error {
	path := filepath.Join(dir, f.rel)
	if slots != nil {
		if err := destroySlotOf(path, slots); ignoreGone(err) != nil {
			return err
		}
	}
	return ignoreGone(m.files().Remove(path))
}

// destroySlotOf destroys the key of a sealed file. It does nothing for other files.
func destroySlotOf(path string, slots seal.SlotFile) error {
	f, err := osDisk{}.Open(path)
	if d := (damage{}); err != nil && !errors.As(err, &d) {
		return err
	} else if err != nil {
		return nil
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	head := make([]byte, seal.HeaderBytes)
	if _, err := io.ReadFull(f, head); err != nil {
		return nil
	}
	h, err := seal.ParseHeader(head, info.Size())
	if err != nil {
		return nil
	}
	return seal.DestroySlots(slots, h.Slot)
}

// syncFolders makes the new names durable before Clear removes the old ones. It ignores errors,
// because not every file system supports that.
func (m *Move) syncFolders() {
	dirs, _ := filepath.Glob(filepath.Join(m.To, blocksDir, "[0-9a-f][0-9a-f]"))
	for _, dir := range append(dirs, filepath.Join(m.To, blocksDir), filepath.Join(m.To, pinsDir),
		m.To, filepath.Dir(m.To)) {
		if d, err := os.Open(dir); err == nil {
			_ = d.Sync()
			_ = d.Close()
		}
	}
}

// removeStrays removes entries from the new folder that the old one has lost since Copy: the user
// may have removed them on purpose.
func (m *Move) removeStrays() error {
	files, err := filesOf(m.To, true)
	if err != nil {
		return err
	}
	for _, f := range files {
		if _, err := os.Lstat(filepath.Join(m.From, f.rel)); errors.Is(err, fs.ErrNotExist) {
			if err := m.files().Remove(filepath.Join(m.To, f.rel)); err != nil {
				return err
			}
		} else if err != nil {
			return err
		}
	}
	return nil
}

// pins replaces the pins of the new folder with those of the old one.
func (m *Move) pins() error {
	if err := removeNamed(m.files(), filepath.Join(m.To, pinsDir), isPin); err != nil {
		return err
	}
	pins, err := os.ReadDir(filepath.Join(m.From, pinsDir))
	if err != nil || len(pins) == 0 {
		return ignoreGone(err)
	}
	if err := m.files().MkdirAll(filepath.Join(m.To, pinsDir)); err != nil {
		return err
	}
	for _, p := range pins {
		if !isPin(p.Name()) {
			continue
		}
		f, err := m.files().Create(filepath.Join(m.To, pinsDir, p.Name()))
		if err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	return nil
}

// Clear removes the store's files from the old folder. Call it once the settings name the new one.
// If the old folder has been used since Settle, entries that the new folder lacks stay there, with
// their index.
func (m *Move) Clear() error {
	known, err := readMark(m.To)
	if err != nil || known == nil || !known.Whole {
		return errors.Join(err, errors.New(
			"blockstore: the new folder is incomplete: call Settle before Clear"))
	}
	if err := checkUnused(m.From); err != nil {
		return err
	}
	if info, err := os.Stat(m.From); err != nil || !info.IsDir() {
		if _, parent := os.Stat(filepath.Dir(m.From)); parent != nil {
			return errors.Join(err, parent) // the disk may be mounted again later
		}
		return m.unmark()
	}
	info, err := os.Stat(filepath.Join(m.From, indexName))
	untouched := errors.Is(err, fs.ErrNotExist) || err == nil &&
		info.ModTime().UnixNano() == known.IndexTime
	if _, err := os.Stat(filepath.Join(m.From, indexName+"-wal")); err == nil {
		untouched = false
	}
	kept, err := m.clearEntries(m.From, func(f entryFile) bool { return untouched || m.has(f) })
	if err != nil {
		return err
	}
	if kept == 0 {
		if err := clearRest(m.files(), m.From, known.Own); err != nil {
			return err
		}
	}
	return m.unmark()
}

// clearEntries removes each entry f for which may(f) is true, and returns the number of other
// entries.
func (m *Move) clearEntries(dir string, may func(entryFile) bool) (kept int, err error) {
	files, err := filesOf(dir, true)
	if err != nil {
		return 0, err
	}
	var slots seal.SlotFile
	if Encrypted(dir) {
		if slots, err = m.files().OpenKeys(filepath.Join(dir, keysName)); err != nil {
			return 0, err
		}
		defer slots.Close()
	}
	for _, f := range files {
		if !may(f) {
			kept++
		} else if err := m.destroyEntry(dir, slots, f); err != nil {
			return kept, err
		}
	}
	if slots != nil {
		err = slots.Sync()
	}
	return kept, err
}

// clearRest removes the remaining files of a store that has no entries, and the folder if a store
// has created it and it is then empty. The files by which erase knows the folder come last: the
// lock that says that a store has created it, or else the index, or else the lock and the folder of
// blocks. So an interrupted clearRest can be repeated.
func clearRest(files disk, dir string, own bool) error {
	if err := errors.Join(removeNamed(files, filepath.Join(dir, pinsDir), isPin),
		removeNamed(files, filepath.Join(dir, tempDir), isTemp)); err != nil {
		return err
	}
	for _, name := range []string{keysName, keysName + copySuffix} {
		if path := filepath.Join(dir, name); isKeys(path) || isWiped(path) {
			if err := seal.OverwriteFile(path); err != nil {
				return err
			}
			if err := files.Remove(path); ignoreGone(err) != nil {
				return err
			}
		}
	}
	if err := removeMark(files, dir); err != nil {
		return err
	}
	for _, name := range []string{indexName + copySuffix, markName + copySuffix} {
		if err := removeFile(files, filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	lock := filepath.Join(dir, lockName)
	if isLock(lock) && !isOwnFolder(dir) {
		if err := removeFile(files, lock); err != nil {
			return err
		}
	}
	subs, _ := filepath.Glob(filepath.Join(dir, blocksDir, "[0-9a-f][0-9a-f]"))
	for _, sub := range append(subs, filepath.Join(dir, blocksDir)) {
		removeFolder(files, sub)
	}
	if _, err := discardIndex(files, filepath.Join(dir, indexName)); err != nil {
		return err
	}
	if isOwnFolder(dir) {
		if err := removeFile(files, lock); err != nil {
			return err
		}
	}
	if own {
		removeFolder(files, dir)
	}
	return nil
}

// DiscardMove removes the files that an unfinished move has written to dir. dir must not be the
// folder that the settings name. DiscardMove does nothing in a folder without a marker.
func DiscardMove(dir string) error {
	known, err := readMark(dir)
	if err != nil || known == nil {
		return err
	}
	if err := checkUnused(dir); err != nil {
		return err
	}
	m := &Move{From: known.From, To: dir}
	if _, err := m.clearEntries(dir, func(entryFile) bool { return true }); err != nil {
		return err
	}
	return clearRest(m.files(), dir, isOwnFolder(dir))
}

// FinishMove completes a move to dir, the folder that the settings name. If the copy was never
// complete, FinishMove only removes the marker, and the old folder stays. It does nothing in a
// folder without a marker.
func FinishMove(dir string) error {
	known, err := readMark(dir)
	if err != nil || known == nil {
		return err
	}
	m := &Move{From: known.From, To: dir}
	if !known.Whole {
		return m.unmark()
	}
	return m.Clear()
}

// checkUnused returns ErrInUse if a store has the folder open, in any process.
func checkUnused(dir string) error {
	locks, err := filepath.Glob(filepath.Join(dir, tempDir, "*.lock"))
	s := &Store{dir: dir}
	for _, lock := range locks {
		if s.alive(strings.TrimSuffix(filepath.Base(lock), ".lock")) {
			return ErrInUse
		}
	}
	return err
}

// existing returns dir, or its nearest parent that exists.
func existing(dir string) string {
	for {
		if _, err := os.Stat(dir); err == nil || dir == filepath.Dir(dir) {
			return dir
		}
		dir = filepath.Dir(dir)
	}
}

// realPath resolves the symbolic links of the existing part of the path.
func realPath(path string) string {
	there := existing(path)
	if real, err := filepath.EvalSymlinks(there); err == nil {
		return filepath.Join(real, strings.TrimPrefix(path, there))
	}
	return filepath.Clean(path)
}

// within reports whether path is dir or inside it.
func within(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}
