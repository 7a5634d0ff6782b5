package blockstore

// What may be written. Every file's bytes are reserved in the transaction that makes its row: there
// the cap, the free disk and the day's writes are looked at, and what was used least recently is
// evicted, so that no two processes can spend the same room.

import (
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"time"
)

// clockSlackDays is how far the calendar may go back without a new day's budget.
const clockSlackDays = 2

// reserve makes the row of an entry about to be written, and room for it. False without error:
// there is a row already. An error that wraps ErrBudget leaves a transaction that is to be
// committed: what was evicted is gone.
func (s *Store) reserve(tx *sql.Tx, w *saving, h *header, k Key, size int64) (bool, error) {
	vacant, err := s.vacant(tx, k)
	if err != nil || !vacant {
		return false, err
	}
	parent, used, err := w.parentOf(tx, h)
	if err != nil {
		return false, err
	}
	pinned := w.grows != nil
	if err := s.checkDay(tx, size, w.q.Reused || pinned); err != nil {
		return false, err
	}
	if err := s.reserveRoom(tx, size, w.path); err != nil {
		return false, err
	}
	model, err := modelID(tx, w.model)
	if err != nil {
		return false, err
	}
	if _, err := tx.Exec(insertEntry, k[:], parent[:], model, h.kind, statusWriting, s.owner,
		h.position, len(h.tokens), size, used,
		pinned, h.created.Unix(), h.seconds, h.title, ordered(h.tokens)); err != nil {
		return false, err
	}
	_, err = tx.Exec("UPDATE totals SET today = today + ?, ever = ever + ?", size, size)
	return err == nil, err
}

// parentOf is what the index calls the parent of a new entry, and how recent the entry is: as its
// parent, which begin has touched.
func (w *saving) parentOf(tx *sql.Tx, h *header) (parent Key, used int64, err error) {
	if h.position == 0 {
		used, err = tick(tx)
		return w.keys.root, used, err
	}
	err = tx.QueryRow("SELECT used FROM entries WHERE key = ?", h.parent[:]).Scan(&used)
	if errors.Is(err, sql.ErrNoRows) {
		err = fmt.Errorf("%w: the block before position %d was removed meanwhile", ErrBudget,
			h.position)
	}
	return h.parent, used, err
}

const insertEntry = `INSERT INTO entries (key, parent, model, kind, status, owner, position, n, bytes, used, pinned, created, seconds, title, tokens)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

// vacant says that there is no row of the key; one that a dead process was writing is removed.
func (s *Store) vacant(tx *sql.Tx, k Key) (bool, error) {
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
	return dropRow(tx, k)
}

// checkDay refuses size bytes that would go over the day's budget. From half of it on, only what is
// likely to be read again is written.
func (s *Store) checkDay(tx *sql.Tx, size int64, likely bool) error {
	today, err := s.today(tx)
	if err != nil {
		return err
	}
	limits := s.limits.Load()
	if limits.Sparing && !likely {
		return fmt.Errorf("%w: only what was read before is written now", ErrBudget)
	}
	if limit := limits.DailyWriteBytes; limit > 0 {
		if today+size > limit {
			return fmt.Errorf(
				"%w: %d bytes written today, %d more would be over the daily limit of %d",
				ErrBudget, today, size, limit)
		}
		if !likely && today+size > limit/2 {
			return fmt.Errorf(
				"%w: more than half of the day's %d bytes are written; the rest is for what was "+
					"read before", ErrBudget, limit)
		}
	}
	return nil
}

// today is the bytes written on this day. A clock that goes back a little does not begin a new one.
// One that goes back further was ahead before: its day is corrected, and what was written stays
// counted.
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

// calendarDay numbers the days as the wall shows them, from 1970 on.
func calendarDay(t time.Time) int64 {
	y, m, d := t.Date()
	return time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Unix() / (24 * 60 * 60)
}

// reserveRoom evicts until size more bytes fit under the cap and leave the free disk its reserve.
func (s *Store) reserveRoom(tx *sql.Tx, size int64, keep map[Key]bool) error {
	if most := s.limits.Load().MaxBytes; most > 0 {
		var bytes int64
		if err := tx.QueryRow("SELECT bytes FROM totals").Scan(&bytes); err != nil {
			return err
		}
		if over := bytes + size - most; over > 0 {
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
				return fmt.Errorf(
					"%w: %d bytes are stored and nothing more can be evicted, %d more would be "+
						"over the cap of %d",
					ErrBudget, bytes-freed, size, most)
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
	var writing int64 // reserved by others and not on the disk yet
	if err := tx.QueryRow("SELECT coalesce(sum(bytes), 0) FROM entries WHERE status = 0").Scan(
		&writing); err != nil {
		return err
	}
	for tried := false; ; tried = true {
		free, err := s.o.disk.FreeBytes(s.dir)
		if err != nil {
			return fmt.Errorf("%w: how much disk is free is unknown: %w", ErrBudget, err)
		}
		under := reserve - (free - writing - size)
		if under <= 0 {
			return nil
		}
		// Once only: where removing files does not free the disk (snapshots), more of it would
		// empty the store for nothing.
		freed := int64(0)
		if !tried {
			if freed, err = s.evict(tx, under, keep); err != nil {
				return err
			}
		}
		if freed == 0 {
			return fmt.Errorf(
				"%w: %d bytes of disk are free, %d more would leave less than the reserve of %d",
				ErrBudget, free-writing, size, reserve)
		}
	}
}

// releaseDead takes back what processes reserved that died while they wrote.
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
			err = s.removeFile(k) // it may have come as far as that
		}
		if err == nil {
			_, err = dropRow(tx, k)
			freed += bytes
		}
	}
	return freed, err
}

// evict removes the least recently used entries that have no children, until so many bytes are
// free: never what is pinned, kept, or being loaded by this process. Files go before their rows, so
// the cap holds at every moment.
func (s *Store) evict(tx *sql.Tx, bytes int64, keep map[Key]bool) (freed int64, err error) {
	for freed < bytes {
		k, n, ok, err := s.nextVictim(tx, keep)
		if err != nil || !ok {
			return freed, err
		}
		if err := s.removeFile(k); err != nil {
			s.note("evict", err) // what is gone must stay gone in the index: no reason to roll back
			return freed, nil
		}
		if _, err := dropRow(tx, k); err != nil {
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

// removeFile removes an entry's file; one that is gone is removed.
func (s *Store) removeFile(k Key) error {
	if err := s.o.disk.Remove(entryPath(s.dir, k)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
