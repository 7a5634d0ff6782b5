package blockstore

// Pins. A pinned conversation has one marked entry, its end; the mark protects the entry, all it stands behind, and the states on the way.
// When the conversation grows, the mark moves on to its new end. Marks are kept as files too (pins/key), as the index can be thrown away.

import (
	"database/sql"
	"slices"
)

// pinnedEnd is the marked entry of a pinned conversation.
type pinnedEnd struct {
	key  Key
	kind kind
	end  int // position behind its last token
}

// findPin is the deepest pinned end that the sequence goes on from, nil if there is none.
func (w *saving) findPin(tx *sql.Tx) (*pinnedEnd, error) {
	var found *pinnedEnd
	err := scanRows(tx, `SELECT key, parent, kind, position, tokens FROM entries JOIN models ON id = model
		WHERE pin = 1 AND fingerprint = ? AND format = ?`, func(rows *sql.Rows) error {
		var e pinnedEnd
		var parent Key
		var text []byte
		var position int
		if err := rows.Scan(keyColumn{&e.key}, keyColumn{&parent}, &e.kind, &position, &text); err != nil {
			return err
		}
		tokens := fromOrdered(text)
		e.end = position + len(tokens)
		on := position >= 0 && e.end <= len(w.q.Tokens) && position/BlockTokens <= len(w.chain) &&
			w.behind(w.chain, position/BlockTokens) == parent && slices.Equal(w.q.Tokens[position:e.end], tokens)
		if on && (found == nil || e.end > found.end) {
			found = &e
		}
		return nil
	}, w.model.Fingerprint, w.model.Format)
	return found, err
}

// movePin moves the mark from the end that the sequence goes on from to the deepest entry that is stored of it now.
func (w *saving) movePin() error {
	return w.store.change(func(tx *sql.Tx) error {
		var last Key
		end := w.grows.end
		for k := range w.path {
			var at int
			err := tx.QueryRow("SELECT position + n FROM entries WHERE key = ? AND kind <> 3", k[:]).Scan(&at)
			if err == nil && at > end {
				last, end = k, at
			}
		}
		if end == w.grows.end {
			return nil
		}
		// A tail that was left behind is protected no longer: its tokens stand in the new end.
		if _, err := tx.Exec("UPDATE entries SET pin = 0, pinned = (kind <> 2) WHERE key = ?", w.grows.key[:]); err != nil {
			return err
		}
		for k := range w.path {
			if _, err := tx.Exec("UPDATE entries SET pinned = 1 WHERE key = ? AND kind = 3", k[:]); err != nil {
				return err
			}
		}
		return protect(tx, last)
	})
}

// protect marks an entry as a pinned end, and it and all it stands behind as pinned.
func protect(tx *sql.Tx, end Key) error {
	if _, err := tx.Exec("UPDATE entries SET pin = 1 WHERE key = ?", end[:]); err != nil {
		return err
	}
	_, err := tx.Exec(`WITH RECURSIVE path (key, parent) AS (
			SELECT key, parent FROM entries WHERE key = ?
			UNION SELECT e.key, e.parent FROM entries e JOIN path ON e.key = path.parent)
		UPDATE entries SET pinned = 1 WHERE key IN (SELECT key FROM path)`, end[:])
	return err
}
