package blockstore

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Check verifies the whole store: every row against its file, every file's content against its
// name, the totals, the cap, the chains and their recency, and the temporary files. It is for
// tests. No process may write meanwhile.
func (s *Store) Check() error {
	if err := s.waitAdopted(); err != nil {
		return err
	}
	s.flush()
	return s.read(func(x *index) error {
		return errors.Join(s.checkIndex(x), s.checkEntries(x), s.checkFolder(x), s.checkTemps(),
			s.checkSlots(x))
	})
}

// checkSlots compares the slots with the rows.
func (s *Store) checkSlots(x *index) error {
	if s.safe() == nil {
		return nil
	}
	full, err := s.safe().slots.Full()
	if err != nil {
		return err
	}
	err = scanRows(x.db, "SELECT slot FROM entries", func(rows *sql.Rows) error {
		var slot uint32
		err := rows.Scan(&slot)
		if err == nil && !full[slot] {
			err = fmt.Errorf("check: slot %d of an entry is empty", slot)
		}
		delete(full, slot)
		return err
	})
	if err == nil && len(full) > 0 {
		err = fmt.Errorf("check: %d slots without an entry are not empty", len(full))
	}
	if err != nil {
		return err
	}
	var slots, free, used int64
	err = x.db.QueryRow(`SELECT slots, (SELECT count(*) FROM free_slots),
		(SELECT count(*) FROM entries) FROM totals`).Scan(&slots, &free, &used)
	if err == nil && slots != free+used {
		err = fmt.Errorf("check: %d slots, %d of them free and %d used", slots, free, used)
	}
	return err
}

func (s *Store) checkIndex(x *index) error {
	var verdict string
	if err := x.db.QueryRow("PRAGMA integrity_check(1)").Scan(&verdict); err != nil ||
		verdict != "ok" {
		return fmt.Errorf("check: index: %s, %v", verdict, err)
	}
	var bytes, entries, sum, rows int64
	if err := x.db.QueryRow("SELECT bytes, entries FROM totals").Scan(&bytes,
		&entries); err != nil {
		return err
	}
	if err := x.db.QueryRow("SELECT coalesce(sum(bytes), 0), count(*) FROM entries").Scan(&sum,
		&rows); err != nil {
		return err
	}
	if bytes != sum || entries != rows {
		return fmt.Errorf("check: totals say %d bytes in %d entries, the rows %d in %d", bytes,
			entries, sum, rows)
	}
	if maxBytes := s.limits.Load().MaxBytes; maxBytes > 0 && bytes > maxBytes {
		return fmt.Errorf("check: %d bytes exceed the cap of %d", bytes, maxBytes)
	}
	var n int
	const usedLater = `SELECT count(*) FROM entries e JOIN entries p ON p.key = e.parent
		WHERE p.used < e.used`
	if err := x.db.QueryRow(usedLater).Scan(&n); err != nil || n > 0 {
		return fmt.Errorf("check: %d entries were used after their parents, %v", n, err)
	}
	const misplaced = `SELECT count(*) FROM entries e JOIN entries p ON p.key = e.parent
		WHERE p.kind <> 1 OR p.position + p.n <> e.position OR p.model <> e.model`
	if err := x.db.QueryRow(misplaced).Scan(&n); err != nil || n > 0 {
		return fmt.Errorf("check: %d entries do not follow their parents, %v", n, err)
	}
	if err := x.db.QueryRow("SELECT count(*) FROM entries WHERE pin = 1 AND pinned = 0").Scan(
		&n); err != nil || n > 0 {
		return fmt.Errorf("check: %d pins protect nothing, %v", n, err)
	}
	return nil
}

// checkEntries compares each row with its file.
func (s *Store) checkEntries(x *index) error {
	return scanRows(x.db, `SELECT key, parent, fingerprint, format, kind, status, owner, position,
			n, bytes, slot, title, tokens, codes
		FROM entries JOIN models ON id = model`, func(rows *sql.Rows) error {
		var k, parent Key
		var h header
		var status, n int
		var owner string
		var size int64
		var secret secrets
		if err := rows.Scan(keyColumn{&k}, keyColumn{&parent}, &h.fingerprint, &h.format, &h.kind,
			&status, &owner, &h.position, &n, &size, &secret.slot, &secret.title, &secret.tokens,
			&secret.codes); err != nil {
			return err
		}
		if status == statusWriting {
			if !s.alive(owner) {
				return fmt.Errorf("check: %s was being written by %s, which is gone", k, owner)
			}
			return nil
		}
		file, slot, fileBytes, err := s.readHeader(k)
		if err != nil {
			return fmt.Errorf("check: row without a valid file: %w", err)
		}
		if file.position == 0 {
			file.parent = newKeys(file.fingerprint, file.format, s.safe().secret()).root
		}
		tokens, err := s.safe().tokens(secret, k)
		if err != nil {
			return fmt.Errorf("check: the tokens of row %s: %w", k, err)
		}
		title, err := s.safe().title(secret, k)
		if err != nil || title != file.title || s.safe() != nil && int64(slot) != secret.slot {
			return fmt.Errorf("check: row %s has the title %q and slot %d, its file %q and %d, %v",
				k, title, secret.slot, file.title, slot, err)
		}
		if fileBytes != size || file.kind != h.kind || file.position != h.position ||
			file.parent != parent || file.fingerprint != h.fingerprint ||
			file.format != h.format || !slices.Equal(file.tokens, tokens) ||
			!bytes.Equal(s.safe().codes(parent, tokens), secret.codes) ||
			n != len(file.tokens) {
			return fmt.Errorf("check: %s: the row differs from its file of %d bytes", k, fileBytes)
		}
		return nil
	})
}

// checkFolder reports files without a row.
func (s *Store) checkFolder(x *index) error {
	files, err := s.listFiles()
	if err != nil {
		return err
	}
	for _, f := range files {
		var n int
		if err := x.db.QueryRow("SELECT count(*) FROM entries WHERE key = ?",
			f.key[:]).Scan(&n); err != nil || n != 1 {
			return fmt.Errorf("check: file %s has %d rows, %v", f.key, n, err)
		}
	}
	return nil
}

// checkTemps reports temporary files of closed stores. This store may only have its lock file,
// because it is not writing.
func (s *Store) checkTemps() error {
	entries, err := os.ReadDir(filepath.Join(s.dir, tempDir))
	if err != nil {
		return ignoreGone(err)
	}
	for _, e := range entries {
		owner, rest := tempOwner(e.Name()), strings.TrimPrefix(filepath.Ext(e.Name()), ".")
		if owner == "" {
			continue // not a store's file
		}
		if owner == s.owner && rest != "lock" || owner != s.owner && !s.alive(owner) {
			return fmt.Errorf("check: temporary file %s was left behind", e.Name())
		}
	}
	return nil
}
