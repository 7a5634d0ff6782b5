package blockstore

// Digests of the weights that entries belong to. Computing one reads all weights, so the index
// remembers them. A folder whose index has been rebuilt has none, and they are computed again.

import (
	"database/sql"
	"errors"
)

// Digest returns the text that SetDigest has stored with the name; ok is false if there is none.
func (s *Store) Digest(name string) (text string, ok bool) {
	err := s.read(func(x *index) error {
		return x.db.QueryRow("SELECT text FROM counts WHERE name = ?", name).Scan(&text)
	})
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		s.warnOnce("digest", err)
	}
	return text, err == nil
}

// SetDigest stores a text, in place of an earlier one with the same name. An error is logged.
func (s *Store) SetDigest(name, text string) {
	err := s.change(func(tx *sql.Tx) error {
		_, err := tx.Exec(`INSERT INTO counts (name, n, text) VALUES (?, 0, ?)
			ON CONFLICT DO UPDATE SET text = excluded.text`, name, text)
		return err
	})
	if err != nil {
		s.warnOnce("digest", err)
	}
}
