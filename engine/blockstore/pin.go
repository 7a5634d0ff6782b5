package blockstore

// This file pins conversations. A pinned conversation has one marked entry, its end. The mark
// protects that entry, all entries before it, and the states on the path. When the conversation
// grows, the mark moves to its new end. Each mark is also an empty file (pins/KEY), which survives
// the loss of the index.

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

const pinsDir = "pins"

// Pin protects a conversation from eviction, or ends the protection. keyPrefix is as for Show. A
// pinned conversation stays pinned as it grows.
func (s *Store) Pin(keyPrefix string, pinned bool) error {
	return s.browseChange(func(tx *sql.Tx) error {
		f, err := readForest(tx)
		if err != nil {
			return err
		}
		end, err := f.resolve(keyPrefix)
		if err != nil {
			return err
		}
		if pinned {
			_, err = tx.Exec("UPDATE entries SET pin = 1 WHERE key = ?", end.key[:])
			return err
		}
		for _, e := range f.conversation(end) {
			// A mark may remain on an earlier entry that only this conversation has.
			if e == end || e.leaf == end {
				if _, err := tx.Exec("UPDATE entries SET pin = 0 WHERE key = ?",
					e.key[:]); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// pinnedEnd is the marked entry of a pinned conversation.
type pinnedEnd struct {
	key Key
	end int // position after its last token
}

// findPin returns the deepest pinned end that the sequence continues, or nil.
func (w *saving) findPin(tx *sql.Tx) (*pinnedEnd, error) {
	var found *pinnedEnd
	err := scanRows(tx, `SELECT key, parent, position, n, codes FROM entries JOIN models ON id = model
		WHERE pin = 1 AND fingerprint = ? AND format = ?`, func(rows *sql.Rows) error {
		var e pinnedEnd
		var parent Key
		var codes []byte
		var position, n int
		if err := rows.Scan(keyColumn{&e.key}, keyColumn{&parent}, &position, &n,
			&codes); err != nil {
			return err
		}
		e.end = position + n
		continued := position >= 0 && e.end <= len(w.q.Tokens) &&
			position/BlockTokens <= len(w.chain) &&
			w.indexParent(w.chain, position/BlockTokens) == parent &&
			bytes.Equal(w.store.safe().codes(parent, w.q.Tokens[position:e.end]), codes)
		if continued && (found == nil || e.end > found.end) {
			found = &e
		}
		return nil
	}, w.model.Fingerprint, w.model.Format)
	return found, err
}

// movePin moves the mark from the pinned end to the sequence's deepest stored entry.
func (w *saving) movePin() error {
	return w.store.change(func(tx *sql.Tx) error {
		var last Key
		end := w.pin.end
		for k := range w.path {
			var at int
			err := tx.QueryRow("SELECT position + n FROM entries WHERE key = ? AND kind <> 3",
				k[:]).Scan(&at)
			if err != nil && !errors.Is(err, sql.ErrNoRows) {
				return err
			}
			if at > end {
				last, end = k, at
			}
		}
		if end == w.pin.end {
			return nil
		}
		if _, err := tx.Exec("UPDATE entries SET pin = 0 WHERE key = ?",
			w.pin.key[:]); err != nil {
			return err
		}
		if _, err := tx.Exec("UPDATE entries SET pin = 1 WHERE key = ?", last[:]); err != nil {
			return err
		}
		return w.store.repin(tx)
	})
}

// repin recomputes which entries the marks protect, and writes the marks' files.
func (s *Store) repin(tx *sql.Tx) error {
	_, err := tx.Exec("UPDATE entries SET pinned = 0 WHERE pinned = 1 AND status = 1")
	if err != nil {
		return err
	}
	marks := map[Key]bool{}
	err = scanRows(tx, "SELECT key FROM entries WHERE pin = 1", func(rows *sql.Rows) error {
		var k Key
		err := rows.Scan(keyColumn{&k})
		marks[k] = true
		return err
	})
	if err != nil {
		return err
	}
	if len(marks) > 0 {
		f, err := readForest(tx)
		if err != nil {
			return err
		}
		for k := range marks {
			e := f.byKey[k]
			if e == nil {
				continue
			}
			for _, e := range f.conversation(e) {
				if e.kind == kindTail && e.key != k {
					continue // a longer block or tail has its tokens
				}
				if _, err := tx.Exec("UPDATE entries SET pinned = 1 WHERE key = ?",
					e.key[:]); err != nil {
					return err
				}
			}
		}
	}
	return s.writePins(tx, marks)
}

// writePins creates a file for each mark. It removes files without a mark, unless the index is
// still incomplete.
func (s *Store) writePins(tx *sql.Tx, marks map[Key]bool) error {
	stored, err := s.readPins()
	if err != nil {
		return err
	}
	for k := range marks {
		if stored[k] {
			continue
		}
		if err := s.o.disk.MkdirAll(filepath.Join(s.dir, pinsDir)); err != nil {
			return err
		}
		f, err := s.o.disk.Create(filepath.Join(s.dir, pinsDir, k.String()))
		if err != nil {
			return fmt.Errorf("blockstore: writing a pin: %w", err)
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	var complete bool
	if err := tx.QueryRow("SELECT complete FROM totals").Scan(&complete); err != nil || !complete {
		return err
	}
	for k := range stored {
		if !marks[k] {
			if err := s.o.disk.Remove(filepath.Join(s.dir, pinsDir, k.String())); err != nil &&
				!errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// readPins returns the marks that have a file.
func (s *Store) readPins() (map[Key]bool, error) {
	entries, err := os.ReadDir(filepath.Join(s.dir, pinsDir))
	pins := map[Key]bool{}
	for _, e := range entries {
		if k, err := parseKey(e.Name()); err == nil {
			pins[k] = true
		}
	}
	return pins, ignoreGone(err)
}

// restorePins marks the pinned entries in an index that was rebuilt from the files.
func (s *Store) restorePins(tx *sql.Tx) error {
	pins, err := s.readPins()
	if err != nil || len(pins) == 0 {
		return err
	}
	for k := range pins {
		if _, err := tx.Exec("UPDATE entries SET pin = 1 WHERE key = ?", k[:]); err != nil {
			return err
		}
	}
	return s.repin(tx)
}
