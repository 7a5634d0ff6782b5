package blockstore

// Moving a store to another folder. The entries go first, while the store is in use: by hard links
// where both folders are on one disk, else by copies that are read back. Then, when nobody has the
// store open, what has changed since, the pins and the index follow (Settle). From there on both
// folders are whole, and whoever says which one counts may say the new one. Only then the old one
// is emptied (Clear).
//
// A mark in the new folder says how far this is. A process may die at any point:
//
//   - The old folder is whole until Clear, and Clear takes no entry away that the new folder lacks.
//   - A folder with a mark that does not say "whole" is an unfinished copy: Copy goes on with it, DiscardMove takes it away.
//   - One with a mark that says so, once it is the folder that counts, has Clear still before it (FinishMove).

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	markName    = "moving.json"
	copySuffix  = ".moving" // of files that are not whole yet
	moveReserve = 1 << 20   // for folders and the mark
)

// Errors of a move to ask for with errors.Is.
var (
	ErrInUse    = errors.New("blockstore: another program has the store open")
	ErrOccupied = errors.New("blockstore: there is a store in that folder")
	ErrNested   = errors.New("blockstore: one folder lies in the other")
)

// NoRoom is why a disk cannot take the store.
type NoRoom struct{ Need, Free int64 }

func (e *NoRoom) Error() string {
	return fmt.Sprintf("blockstore: %d bytes have to be copied, and the disk has %d for them",
		e.Need, e.Free)
}

// Move is one move. From and To are absolute; the rest may be left out.
type Move struct {
	From, To string
	// MinFreeBytes of the new disk are left alone.
	MinFreeBytes int64
	// AlwaysCopy makes copies where links would do.
	AlwaysCopy bool
	// Found and Moved are told of entries that are in place already, and of those that have been
	// put there.
	Found, Moved func(bytes int64)

	disk disk // nil: the real one
}

// mark is the file in the new folder.
type mark struct {
	From  string `json:"from"`
	Whole bool   `json:"whole"`
	// IndexTime is when the old index was last changed, in nanoseconds since 1970: if it still is,
	// nobody has used the old folder since.
	IndexTime int64 `json:"indexTime"`
}

func (m *Move) files() disk {
	if m.disk == nil {
		return osDisk{}
	}
	return m.disk
}

// entryFile is an entry's file in some folder.
type entryFile struct {
	rel  string // under the store's folder
	size int64
}

// filesOf is the entries in a folder, and unfinished copies of some if partial is set.
func filesOf(dir string, partial bool) ([]entryFile, error) {
	var files []entryFile
	err := filepath.WalkDir(filepath.Join(dir, blocksDir),
		func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return ignoreGone(err)
			}
			name, ok := strings.CutSuffix(d.Name(), extension)
			if partial && !ok {
				name, ok = strings.CutSuffix(d.Name(), extension+copySuffix)
			}
			k, keyErr := parseKey(name)
			if !ok || keyErr != nil || filepath.Dir(path) != filepath.Dir(entryPath(dir, k)) {
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

// Bytes is what the entries take.
func (m *Move) Bytes() (total int64, err error) {
	files, err := filesOf(m.From, false)
	for _, f := range files {
		total += f.size
	}
	return total, err
}

// Check tells whether the store can go there, and changes nothing. The error is one of those above,
// or of the file system.
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
		for _, name := range []string{blocksDir, indexName} {
			if _, err := os.Lstat(filepath.Join(m.To, name)); !errors.Is(err, fs.ErrNotExist) {
				return errors.Join(ErrOccupied, err)
			}
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

// links tells whether both folders are on one disk. Not all of those can link: the first link will
// tell.
func (m *Move) links() bool {
	var a, b unix.Stat_t
	return !m.AlwaysCopy && unix.Stat(m.From, &a) == nil && unix.Stat(existing(m.To), &b) == nil &&
		a.Dev == b.Dev
}

// room tells whether the disk can take copies of what it has not got yet.
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

// has tells whether the new folder has the entry: files get their names when they are whole.
func (m *Move) has(f entryFile) bool {
	info, err := os.Lstat(filepath.Join(m.To, f.rel))
	return err == nil && info.Mode().IsRegular() && info.Size() == f.size
}

// Copy puts into the new folder what it lacks. The store may be in use meanwhile: call Settle when
// it is not. It ends soon after ctx.
func (m *Move) Copy(ctx context.Context) error {
	if err := m.Check(); err != nil {
		return err
	}
	if err := m.files().MkdirAll(filepath.Join(m.To, blocksDir)); err != nil {
		return err
	}
	if err := m.write(mark{From: m.From}); err != nil {
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
			tell(m.Found, f.size)
			continue
		}
		from, to := filepath.Join(m.From, f.rel), filepath.Join(m.To, f.rel)
		if err := m.files().MkdirAll(filepath.Dir(to)); err != nil {
			return err
		}
		if links {
			_ = os.Remove(to) // of another size: not the store's
			err := os.Link(from, to)
			if err == nil {
				tell(m.Moved, f.size)
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
		case errors.Is(err, fs.ErrNotExist): // evicted meanwhile
		case err != nil:
			return err
		default:
			tell(m.Moved, f.size)
		}
	}
	return nil
}

func tell(f func(int64), n int64) {
	if f != nil {
		f(n)
	}
}

// copyFile makes a copy, holds what the disk then has against the original, and gives it its name.
func (m *Move) copyFile(ctx context.Context, from, to string) (err error) {
	in, err := osDisk{}.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	part := to + copySuffix
	if err := os.Remove(part); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	out, err := m.files().Create(part)
	if err != nil {
		return fmt.Errorf("%v", err) // a missing folder is no entry that has gone
	}
	defer func() {
		if err != nil {
			_ = os.Remove(part)
		}
	}()
	sum := sha256.New()
	_, err = io.Copy(io.MultiWriter(out, sum), &untilDone{ctx, in})
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
	if _, err = io.Copy(again, &untilDone{ctx, written}); err != nil {
		return err
	}
	if !bytes.Equal(sum.Sum(nil), again.Sum(nil)) {
		return fmt.Errorf("blockstore: %s: what the disk gives back is not what was written", part)
	}
	if info, err := in.Stat(); err == nil {
		// an index that is made again goes by it
		_ = os.Chtimes(part, info.ModTime(), info.ModTime())
	}
	return m.files().Rename(part, to)
}

// untilDone reads until ctx ends.
type untilDone struct {
	ctx context.Context
	r   io.Reader
}

func (u *untilDone) Read(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.r.Read(p)
}

// Settle makes the new folder what the old one is now; nobody may open either meanwhile. ErrInUse:
// somebody has the old one open.
func (m *Move) Settle(ctx context.Context) error {
	if used, err := inUse(m.From); err != nil || used {
		return errors.Join(err, choose(used, ErrInUse))
	}
	if err := m.Copy(ctx); err != nil { // it says too that this is not whole
		return err
	}
	if err := m.removeStrays(); err != nil {
		return err
	}
	if err := m.pins(); err != nil {
		return err
	}
	x, err := openIndex(m.From, false) // whatever its log has goes into the file
	if err == nil {
		err = x.close()
	}
	if err != nil {
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
	return m.write(mark{From: m.From, Whole: true, IndexTime: info.ModTime().UnixNano()})
}

// syncFolders makes the names last, before the old ones go. Not every file system can; that is no
// error.
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

func choose(is bool, err error) error {
	if is {
		return err
	}
	return nil
}

// removeStrays takes away what the old folder has lost since it was copied: somebody may have
// wanted it gone.
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

// pins makes the new folder's pins those of the old one.
func (m *Move) pins() error {
	if err := os.RemoveAll(filepath.Join(m.To, pinsDir)); err != nil {
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

// Clear empties the old folder, of what the store has made there, when the new one counts. Entries
// that only the old one has stay, with their index, if somebody has used it since Settle.
func (m *Move) Clear() error {
	known, err := readMark(m.To)
	if err != nil || known == nil || !known.Whole {
		return errors.Join(err, errors.New("blockstore: the move has not been settled"))
	}
	if used, err := inUse(m.From); err != nil || used {
		return errors.Join(err, choose(used, ErrInUse))
	}
	if info, err := os.Stat(m.From); err != nil || !info.IsDir() {
		if _, parent := os.Stat(filepath.Dir(m.From)); parent != nil {
			return errors.Join(err, parent) // its disk may come back
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
		if err := clearRest(m.From); err != nil {
			return err
		}
	}
	return m.unmark()
}

func (m *Move) unmark() error {
	return ignoreGone(os.Remove(filepath.Join(m.To, markName)))
}

// clearEntries removes the entries that may go.
func (m *Move) clearEntries(dir string, may func(entryFile) bool) (kept int, err error) {
	files, err := filesOf(dir, true)
	if err != nil {
		return 0, err
	}
	for _, f := range files {
		if !may(f) {
			kept++
		} else if err := m.files().Remove(filepath.Join(dir, f.rel)); ignoreGone(err) != nil {
			return kept, err
		}
	}
	return kept, nil
}

// clearRest removes what is left of a store without entries, the index last, and the folder itself
// if nothing of others is in it.
func clearRest(dir string) error {
	subs, _ := filepath.Glob(filepath.Join(dir, blocksDir, "[0-9a-f][0-9a-f]"))
	for _, sub := range append(subs, filepath.Join(dir, blocksDir)) {
		_ = os.Remove(sub) // not if others have put something there
	}
	for _, sub := range []string{pinsDir, tempDir} {
		if err := os.RemoveAll(filepath.Join(dir, sub)); err != nil {
			return err
		}
	}
	for _, name := range []string{"-wal", "-shm", "-journal", ""} {
		if err := os.Remove(filepath.Join(dir, indexName+name)); ignoreGone(err) != nil {
			return err
		}
	}
	for _, name := range []string{indexName + copySuffix, lockName, markName,
		markName + copySuffix} {
		if err := os.Remove(filepath.Join(dir, name)); ignoreGone(err) != nil {
			return err
		}
	}
	_ = os.Remove(dir)
	return nil
}

// DiscardMove takes away what an unfinished move has put into the folder, which must not be the one
// that counts. One without a mark is left as it is.
func DiscardMove(dir string) error {
	known, err := readMark(dir)
	if err != nil || known == nil {
		return err
	}
	if used, err := inUse(dir); err != nil || used {
		return errors.Join(err, choose(used, ErrInUse))
	}
	m := &Move{From: known.From, To: dir}
	if _, err := m.clearEntries(dir, func(entryFile) bool { return true }); err != nil {
		return err
	}
	return clearRest(dir)
}

// FinishMove does what is left of a move to dir, the folder that counts now. A copy that was never
// whole becomes an ordinary folder, and what it was made from is left alone.
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

// readMark is the mark of a folder, nil if it has none.
func readMark(dir string) (*mark, error) {
	b, err := os.ReadFile(filepath.Join(dir, markName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var known mark
	if err := json.Unmarshal(b, &known); err != nil || !filepath.IsAbs(known.From) {
		return nil, fmt.Errorf("blockstore: %s is not the mark of a move: %w",
			filepath.Join(dir, markName), err)
	}
	return &known, nil
}

func (m *Move) write(k mark) error {
	b, err := json.Marshal(k)
	if err != nil {
		return err
	}
	path := filepath.Join(m.To, markName)
	f, err := os.OpenFile(path+copySuffix, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return m.files().Rename(path+copySuffix, path)
}

// inUse tells whether a store that lives has the folder open.
func inUse(dir string) (bool, error) {
	locks, err := filepath.Glob(filepath.Join(dir, tempDir, "*.lock"))
	s := &Store{dir: dir}
	for _, lock := range locks {
		if s.alive(strings.TrimSuffix(filepath.Base(lock), ".lock")) {
			return true, nil
		}
	}
	return false, err
}

// existing is the folder, or the nearest one above it that there is.
func existing(dir string) string {
	for {
		if _, err := os.Stat(dir); err == nil || dir == filepath.Dir(dir) {
			return dir
		}
		dir = filepath.Dir(dir)
	}
}

// realPath is the path without links, as far as it exists.
func realPath(path string) string {
	there := existing(path)
	if real, err := filepath.EvalSymlinks(there); err == nil {
		return filepath.Join(real, strings.TrimPrefix(path, there))
	}
	return filepath.Clean(path)
}

// within tells whether the path lies in the folder.
func within(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}
