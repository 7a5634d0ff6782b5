package blockstore

// The sweep makes index and folder agree. It runs in the background each time an index is opened.
// Crashed processes leave temporary files and rows without a file. A lost index leaves files
// without a row. The files are authoritative.

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/flock"
	"golang.org/x/sys/unix"

	"headroom/engine/seal"
)

// alive reports whether the store with this owner name is still open, in any process: an open store
// holds the lock on its lock file. An error counts as alive, so that no files in use are removed.
// A link in the place of the lock file is no store's.
func (s *Store) alive(owner string) bool {
	held, err := isLocked(s.lockPath(owner))
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ELOOP)
	}
	return held
}

// removeDead removes the temporary files of a store that is not open, and holds its lock meanwhile.
// Otherwise a store that is just being opened could take its lock between the look at it and its
// removal. All others would then take it for dead, and remove the rows of what it writes.
func (s *Store) removeDead(owner string) error {
	path := s.lockPath(owner)
	lock := flock.New(path, flock.SetFlag(os.O_CREATE|lockFlags))
	locked, err := lock.TryLock()
	if errors.Is(err, unix.ELOOP) {
		return s.removeOwner(owner) // a link in the lock's place is no store's
	}
	if err != nil || !locked {
		return err
	}
	named, err := isAt(lock, path)
	if named {
		err = s.removeOwner(owner)
	}
	return errors.Join(err, lock.Close())
}

// removeOwner removes the temporary files of a store whose lock the caller holds, the lock last.
func (s *Store) removeOwner(owner string) error {
	dir := filepath.Join(s.dir, tempDir)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return ignoreGone(err)
	}
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool {
		return !e.Type().IsRegular() || tempOwner(e.Name()) != owner
	})
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { // digits sort before ".lock"
		return strings.Compare(filepath.Ext(a.Name()), filepath.Ext(b.Name()))
	})
	for _, e := range entries {
		if err := s.o.disk.Remove(filepath.Join(dir, e.Name())); ignoreGone(err) != nil {
			return err
		}
	}
	return nil
}

// sweep makes index and folder agree. Close interrupts it; the next opening continues.
func (s *Store) sweep(x *index) {
	err := errors.Join(s.sweepTemps(), s.sweepEntries(x))
	if s.ctx.Err() == nil && err == nil {
		err = s.change(func(tx *sql.Tx) error {
			if !x.complete {
				if err := s.restorePins(tx); err != nil {
					return err
				}
			}
			if err := s.sweepSlots(tx); err != nil {
				return err
			}
			if _, err := tx.Exec("UPDATE totals SET complete = 1"); err != nil {
				return err
			}
			return s.evictOver(tx)
		})
	}
	if err = errors.Join(err, s.syncKeys()); err != nil {
		s.warnOnce("sweep", err)
	}
	if !x.complete {
		close(x.adopted)
	}
	s.flush()
}

// sweepAgain starts another comparison of rows and files, unless one is running.
func (s *Store) sweepAgain() error {
	return s.read(func(x *index) error { // Close waits while the index is in use
		if s.ctx.Err() == nil && s.sweeping.CompareAndSwap(false, true) {
			s.swept.Go(func() {
				defer s.sweeping.Store(false)
				if err := s.sweepEntries(x); err != nil {
					s.warnOnce("sweep", err)
				}
			})
		}
		return nil
	})
}

// sweepTemps removes the unfinished files of crashed processes.
func (s *Store) sweepTemps() error {
	entries, err := os.ReadDir(filepath.Join(s.dir, tempDir))
	if err != nil {
		return err
	}
	seen := map[string]bool{"": true, s.owner: true}
	for _, e := range entries {
		if owner := tempOwner(e.Name()); !seen[owner] {
			seen[owner] = true
			err = errors.Join(err, s.removeDead(owner))
		}
		if s.ctx.Err() != nil {
			return nil
		}
	}
	return err
}

// onDisk is a file that is named like an entry.
type onDisk struct {
	key  Key
	time time.Time
}

// sweepEntries compares the files with the rows.
func (s *Store) sweepEntries(x *index) error {
	files, err := s.listFiles()
	if err != nil {
		return err
	}
	there := make(map[Key]bool, len(files))
	for _, f := range files {
		there[f.key] = true
	}
	rows := make(map[Key]bool, len(files))
	var suspect []Key // rows without a file, or of a write interrupted by a crash
	alive := map[string]bool{s.owner: true}
	err = scanRows(x.db, "SELECT key, status, owner FROM entries", func(rs *sql.Rows) error {
		var k Key
		var status int
		var owner string
		if err := rs.Scan(keyColumn{&k}, &status, &owner); err != nil {
			return err
		}
		if status == statusWriting {
			if _, known := alive[owner]; !known {
				alive[owner] = s.alive(owner)
			}
		}
		rows[k] = true
		if status == statusReady && !there[k] || status == statusWriting && !alive[owner] {
			suspect = append(suspect, k)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, k := range suspect {
		if s.ctx.Err() != nil {
			return nil
		}
		drop := func(tx *sql.Tx) error { return s.dropSuspect(tx, k, rows) }
		if err := s.change(drop); err != nil {
			return err
		}
	}
	files = slices.DeleteFunc(files, func(f onDisk) bool { return rows[f.key] })
	return s.adoptAll(files)
}

// dropSuspect removes a row if it still has no file, or if a crash interrupted its write. If the
// crash came after the file was in place, it marks the row ready instead: without the row, the
// file's key would be lost.
func (s *Store) dropSuspect(tx *sql.Tx, k Key, rows map[Key]bool) error {
	var status int
	var owner string
	err := tx.QueryRow("SELECT status, owner FROM entries WHERE key = ?", k[:]).Scan(&status,
		&owner)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil || status == statusReady && s.exists(k) ||
		status == statusWriting && s.alive(owner) {
		return err
	}
	if status == statusWriting {
		if _, _, size, err := s.readHeader(k); err == nil {
			_, err = tx.Exec("UPDATE entries SET status = 1, owner = '', bytes = ? WHERE key = ?",
				size, k[:])
			return err
		}
	}
	delete(rows, k)
	_, err = s.dropRow(tx, k)
	return err
}

// listFiles returns every file under blocks that is named like an entry, the oldest first. Other
// files do not belong to the store.
func (s *Store) listFiles() ([]onDisk, error) {
	var files []onDisk
	err := filepath.WalkDir(filepath.Join(s.dir, blocksDir),
		func(path string, d fs.DirEntry, err error) error {
			if err == nil && s.ctx.Err() != nil {
				return filepath.SkipAll
			}
			if err != nil || !d.Type().IsRegular() {
				return ignoreGone(err)
			}
			k, ok := entryAt(s.dir, path)
			if !ok {
				return nil
			}
			info, err := d.Info()
			if err == nil {
				files = append(files, onDisk{k, info.ModTime()})
			}
			return ignoreGone(err)
		})
	slices.SortStableFunc(files, func(a, b onDisk) int { return a.time.Compare(b.time) })
	return files, err
}

func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// adoptAll creates rows for files without one, and removes files that are not entries.
func (s *Store) adoptAll(files []onDisk) error {
	const batch = 100 // files per transaction, so that other processes can write in between
	adopted := false
	for from := 0; from < len(files) && s.ctx.Err() == nil; from += batch {
		err := s.change(func(tx *sql.Tx) error {
			for _, f := range files[from:min(from+batch, len(files))] {
				ok, err := s.adopt(tx, f.key)
				if err != nil {
					return err
				}
				adopted = adopted || ok
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if !adopted {
		return nil
	}
	return s.change(settleRecency)
}

// adopt creates the row of a file from its header.
func (s *Store) adopt(tx *sql.Tx, k Key) (bool, error) {
	var row int
	if err := tx.QueryRow("SELECT count(*) FROM entries WHERE key = ?",
		k[:]).Scan(&row); err != nil || row > 0 {
		return false, err
	}
	h, slot, size, err := s.readHeader(k)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if d := (damage{}); errors.As(err, &d) {
		s.count("foreign", 1)
		s.warnOnce("foreign", fmt.Errorf("%s: %w", k, err))
		return false, s.removeFile(k)
	}
	if err != nil {
		return false, err
	}
	model, err := modelID(tx, Model{h.fingerprint, h.format, h.model})
	if err != nil {
		return false, err
	}
	clock, err := tick(tx)
	if err != nil {
		return false, err
	}
	parent := h.parent
	if h.position == 0 {
		parent = newKeys(h.fingerprint, h.format, s.safe().secret()).root
	}
	r, err := s.adoptSecrets(tx, slot, k, parent, h)
	if err != nil {
		return false, err
	}
	_, err = tx.Exec(insertEntry, k[:], parent[:], model, h.kind, statusReady, "", h.position,
		len(h.tokens), size, clock, false, h.created.Unix(), h.seconds, r.slot, r.title, r.tokens,
		r.codes)
	return err == nil, err
}

// adoptSecrets returns the secret columns of an adopted file, and takes its slot. No other row has
// it: the file has opened with the slot's key.
func (s *Store) adoptSecrets(tx *sql.Tx, slot uint32, k, parent Key, h *header) (secrets, error) {
	safe := s.safe()
	if safe == nil {
		return safe.row(0, seal.Key{}, k, parent, h), nil
	}
	entry, err := safe.slots.Key(slot)
	if err != nil {
		return secrets{}, err
	}
	_, err = tx.Exec("DELETE FROM free_slots WHERE slot = ?", slot)
	return safe.row(slot, entry, k, parent, h), err
}

// readHeader reads the beginning of an entry's file and checks that the content matches the key.
// Read verifies the rest. readHeader also returns the entry's slot and the length of the file.
func (s *Store) readHeader(k Key) (*header, uint32, int64, error) {
	f, err := s.o.disk.Open(entryPath(s.dir, k))
	if err != nil {
		return nil, 0, 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, 0, 0, err
	}
	const headBytes = 16 << 10 // more than most headers
	src := &source{ctx: context.Background(), f: f,
		buffer: make([]byte, max(headBytes, sealedChunk+seal.TagBytes))}
	safe := s.safe()
	if safe == nil {
		src.buffer = src.buffer[:headBytes]
	}
	if err := safe.begin(src, info.Size(), k); err != nil {
		return nil, 0, 0, err
	}
	h, err := src.header()
	if err != nil {
		return nil, 0, 0, err
	}
	if got := h.key(safe.secret()); got != k {
		return nil, 0, 0, damage{fmt.Errorf("its content has the key %s", got)}
	}
	return h, src.sealed.Slot, info.Size(), nil
}

// settleRecency makes every entry at least as recent as its children. Adoption gives parents a
// lower recency than their children, because their files are older.
func settleRecency(tx *sql.Tx) error {
	type row struct {
		key, parent Key
		used        int64
	}
	var rows []row
	err := scanRows(tx, "SELECT key, parent, used FROM entries ORDER BY position DESC, kind DESC",
		func(rs *sql.Rows) error {
			var r row
			err := rs.Scan(keyColumn{&r.key}, keyColumn{&r.parent}, &r.used)
			rows = append(rows, r)
			return err
		})
	if err != nil {
		return err
	}
	newest := map[Key]int64{} // by parent: the latest use of a child
	for _, r := range rows {
		if used := newest[r.key]; used > r.used {
			if _, err := tx.Exec("UPDATE entries SET used = ? WHERE key = ?", used,
				r.key[:]); err != nil {
				return err
			}
			r.used = used
		}
		newest[r.parent] = max(newest[r.parent], r.used)
	}
	return nil
}
