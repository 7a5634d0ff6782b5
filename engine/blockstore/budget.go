package blockstore

// This file enforces the limits on writes. The transaction that creates a file's row reserves its
// bytes. It also checks the cap, the free disk space and the day's writes, and evicts the least
// recently used entries. So two processes never use the same space.

import (
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"headroom/engine/seal"
)

// clockSlackDays is the number of days that the calendar may go back without starting a new day.
const clockSlackDays = 2

// reserve creates the row of an entry that is about to be written, and makes room for it. It
// returns false without an error if the row exists. After an error that wraps ErrBudget, the
// transaction must still be committed, because evicted files are gone.
func (s *Store) reserve(tx *sql.Tx, w *saving, h *header, k Key, size int64) (reserved bool,
	slot uint32, entry seal.Key, err error) {
	vacant, err := s.isVacant(tx, k)
	if err != nil || !vacant {
		return false, 0, entry, err
	}
	parent, used, err := w.parentOf(tx, h)
	if err != nil {
		return false, 0, entry, err
	}
	pinned := w.pin != nil
	if err := s.checkDay(tx, size, w.q.Reused || pinned); err != nil {
		return false, 0, entry, err
	}
	if err := s.reserveRoom(tx, size, w.path); err != nil {
		return false, 0, entry, err
	}
	model, err := modelID(tx, w.model)
	if err != nil {
		return false, 0, entry, err
	}
	if slot, entry, err = s.safe().newSlot(tx); err != nil {
		return false, 0, entry, err
	}
	s.keysDirty.Store(true)
	r := s.safe().row(slot, entry, k, parent, h)
	if _, err := tx.Exec(insertEntry, k[:], parent[:], model, h.kind, statusWriting, s.owner,
		h.position, len(h.tokens), size, used, pinned, h.created.Unix(),
		h.seconds, r.slot, r.title, r.tokens, r.codes); err != nil {
		return false, 0, entry, err
	}
	_, err = tx.Exec("UPDATE totals SET today = today + ?, ever = ever + ?", size, size)
	return err == nil, slot, entry, err
}

// parentOf returns a new entry's parent as the index stores it, and the new entry's recency. The
// entry inherits the recency from its parent, which begin has updated.
func (w *saving) parentOf(tx *sql.Tx, h *header) (parent Key, used int64, err error) {
	if h.position == 0 {
		used, err = tick(tx)
		return w.keys.root, used, err
	}
	err = tx.QueryRow("SELECT used FROM entries WHERE key = ?", h.parent[:]).Scan(&used)
	if errors.Is(err, sql.ErrNoRows) {
		err = fmt.Errorf("%w: the block before position %d was removed during the save", ErrBudget,
			h.position)
	}
	return h.parent, used, err
}

const insertEntry = `INSERT INTO entries (key, parent, model, kind, status, owner,
		position, n, bytes, used, pinned, created, seconds, slot, title, tokens, codes)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

// isVacant reports whether no row has the key. It first removes a row that a crashed write left.
func (s *Store) isVacant(tx *sql.Tx, k Key) (bool, error) {
	var status int
	var owner string
	err := tx.QueryRow("SELECT status, owner FROM entries WHERE key = ?", k[:]).Scan(&status,
		&owner)
	if errors.Is(err, sql.ErrNoRows) {
		return true, nil
	}
	if err != nil || status == statusReady || owner != s.owner && s.alive(owner) {
		return false, err
	}
	return s.dropRow(tx, k)
}

// checkDay refuses size bytes that would exceed the day's budget. Once a quarter is spent, only
// entries that are likely to be read again are written.
func (s *Store) checkDay(tx *sql.Tx, size int64, likely bool) error {
	today, err := s.today(tx)
	if err != nil {
		return err
	}
	limits := s.limits.Load()
	if limits.Sparing && !likely {
		return fmt.Errorf("%w: only sequences that resumed a cached prefix are written now",
			ErrBudget)
	}
	if limit := limits.DailyWriteBytes; limit > 0 {
		if today+size > limit {
			return fmt.Errorf(
				"%w: %d bytes were written today; %d more would exceed the daily limit of %d",
				ErrBudget, today, size, limit)
		}
		if !likely && today+size > limit/4 {
			return fmt.Errorf("%w: a quarter of the daily limit of %d bytes is spent; the rest is "+
				"for sequences that resumed a cached prefix", ErrBudget, limit)
		}
	}
	return nil
}

// today returns the bytes written on this day. If the clock goes back by up to clockSlackDays, it
// is still the same day. If it goes back further, it must have been ahead before: today stores the
// earlier day and keeps the bytes.
func (s *Store) today(tx *sql.Tx) (int64, error) {
	var day, written int64
	if err := tx.QueryRow("SELECT day, today FROM totals").Scan(&day, &written); err != nil {
		return 0, err
	}
	now := calendarDay(s.o.now())
	switch {
	case now > day:
		written = 0
	case now >= day-clockSlackDays:
		return written, nil
	}
	_, err := tx.Exec("UPDATE totals SET day = ?, today = ?", now, written)
	return written, err
}

// calendarDay returns the number of days from 1970-01-01 to t's date in t's time zone.
func calendarDay(t time.Time) int64 {
	y, m, d := t.Date()
	return time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Unix() / (24 * 60 * 60)
}

// reserveRoom evicts entries until size more bytes fit under the cap and leave MinFreeBytes of the
// disk free.
func (s *Store) reserveRoom(tx *sql.Tx, size int64, keep map[Key]bool) error {
	if maxBytes := s.limits.Load().MaxBytes; maxBytes > 0 {
		var bytes int64
		if err := tx.QueryRow("SELECT bytes FROM totals").Scan(&bytes); err != nil {
			return err
		}
		if over := bytes + size - maxBytes; over > 0 {
			freed, err := s.releaseDead(tx)
			if err == nil && freed < over {
				var evicted int64
				evicted, err = s.evict(tx, over-freed, keep)
				freed += evicted
			}
			if err != nil {
				return err
			}
			if freed < over {
				return fmt.Errorf("%w: %d bytes are stored and nothing more can be evicted; "+
					"%d more would exceed the cap of %d", ErrBudget, bytes-freed, size, maxBytes)
			}
		}
	}
	return s.reserveDisk(tx, size, keep)
}

func (s *Store) reserveDisk(tx *sql.Tx, size int64, keep map[Key]bool) error {
	reserve := s.limits.Load().MinFreeBytes
	if reserve < 0 {
		return nil
	}
	var writing int64 // reserved and not yet on disk
	if err := tx.QueryRow("SELECT coalesce(sum(bytes), 0) FROM entries WHERE status = 0").Scan(
		&writing); err != nil {
		return err
	}
	for tried := false; ; tried = true {
		free, err := s.o.disk.FreeBytes(s.dir)
		if err != nil {
			return fmt.Errorf("%w: reading the free disk space: %w", ErrBudget, err)
		}
		under := reserve - (free - writing - size)
		if under <= 0 {
			return nil
		}
		// Evict only once: if snapshots keep removed files on the disk, more evictions would empty
		// the store for nothing.
		freed := int64(0)
		if !tried {
			if freed, err = s.evict(tx, under, keep); err != nil {
				return err
			}
		}
		if freed == 0 {
			return fmt.Errorf("%w: the disk has %d bytes free; writing %d would leave less than "+
				"the reserve of %d", ErrBudget, free-writing, size, reserve)
		}
	}
}

// releaseDead frees the reservations of processes that crashed during a write.
func (s *Store) releaseDead(tx *sql.Tx) (freed int64, err error) {
	dead := map[Key]int64{}
	err = scanRows(tx, "SELECT key, owner, bytes FROM entries WHERE status = 0 AND owner <> ?",
		func(rows *sql.Rows) error {
			var k Key
			var owner string
			var bytes int64
			err := rows.Scan(keyColumn{&k}, &owner, &bytes)
			if err == nil && !s.alive(owner) {
				dead[k] = bytes
			}
			return err
		}, s.owner)
	for k, bytes := range dead {
		if err == nil {
			err = s.removeFiles(tx, k) // the process may have renamed it into place
		}
		if err == nil {
			_, err = s.dropRow(tx, k)
			freed += bytes
		}
	}
	return freed, err
}

// evict removes the least recently used entries without children until it has freed the given
// bytes. It spares entries that are pinned, whose keys are in the map keep, or that this process is
// loading. It removes files before their rows, so the cap holds at every moment.
func (s *Store) evict(tx *sql.Tx, bytes int64, keep map[Key]bool) (freed int64, err error) {
	for freed < bytes {
		k, n, ok, err := s.nextVictim(tx, keep)
		if err != nil || !ok {
			return freed, err
		}
		// The slot is synced with the next ones: nobody asked to forget this entry now.
		err = s.destroySlot(tx, k)
		if err == nil {
			err = s.removeFile(k)
		}
		if err != nil {
			// No error: rolling back would restore the rows of files that are gone.
			s.warnOnce("evict", err)
			return freed, nil
		}
		if _, err := s.dropRow(tx, k); err != nil {
			return freed, err
		}
		freed += n
		s.count("evicted", 1)
	}
	return freed, nil
}

func (s *Store) nextVictim(tx *sql.Tx, keep map[Key]bool) (k Key, bytes int64, ok bool, err error) {
	rows, err := tx.Query(`SELECT key, bytes FROM entries e WHERE pinned = 0 AND status = 1
		AND NOT EXISTS (SELECT 1 FROM entries c WHERE c.parent = e.key) ORDER BY used, position DESC`)
	if err != nil {
		return k, 0, false, err
	}
	defer rows.Close()
	for rows.Next() {
		if err := rows.Scan(keyColumn{&k}, &bytes); err != nil {
			return k, 0, false, err
		}
		if !keep[k] && !s.isLoading(k) {
			return k, bytes, true, nil
		}
	}
	return k, 0, false, rows.Err()
}

// removeFile removes the file of an entry. A missing file is not an error.
func (s *Store) removeFile(k Key) error {
	if err := s.o.disk.Remove(entryPath(s.dir, k)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
