package blockstore

// This file lists and removes conversations. Any process that has the folder open can do both.

import (
	"cmp"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"headroom/engine/seal"
)

// Conversation is a chain of entries from the first token to its deepest entry.
type Conversation struct {
	Key                        Key    // of the deepest entry
	Model, Fingerprint, Format string // see Model
	Title                      string
	Tokens                     int
	Bytes                      int64     // of its unshared files
	SharedBytes                int64     // of files that it shares with other conversations
	Created                    time.Time // when its first unshared entry was written
	LastHit                    time.Time // zero: never
	Hits                       int       // uses whose deepest entry is in it, shared or not
	SecondsSaved               float64   // computing time that these uses saved
	Pinned                     bool
}

// Filter selects conversations. The zero value selects all.
type Filter struct {
	Fingerprint string // "": of any model
	Limit       int    // maximum number; 0: all
}

// EntryInfo is one file of a conversation.
type EntryInfo struct {
	Key      Key
	Kind     string // "block", "tail" or "state"
	Position int    // of its first token
	Tokens   int
	Bytes    int64
	Shared   bool // with other conversations
	Hits     int
}

// Detail is a conversation with its entries, by position.
type Detail struct {
	Conversation
	Entries []EntryInfo
	tokens  []int32
}

// TokenIDs returns the conversation's tokens; nil if its beginning is no longer stored.
func (d Detail) TokenIDs() []int32 { return d.tokens }

// Removed counts removed entries.
type Removed struct {
	Entries int
	Bytes   int64
}

// Errors of Show, Pin and Remove if no conversation, or more than one, matches the key prefix.
var (
	ErrNotFound  = errors.New("blockstore: no such conversation")
	ErrAmbiguous = errors.New("blockstore: several conversations match this key")
)

// minKeyDigits is the minimum length of a key prefix.
const minKeyDigits = 4

// Conversations lists the stored conversations, the most recently used first.
func (s *Store) Conversations(filter Filter) ([]Conversation, error) {
	var list []Conversation
	err := s.browse(func(x *index) error {
		f, models, err := readAll(x.db)
		if err != nil {
			return err
		}
		list = list[:0]
		for _, end := range f.ends() {
			if filter.Fingerprint != "" && models[end.model].Fingerprint != filter.Fingerprint {
				continue
			}
			c, err := f.describe(s.safe(), end, models)
			if err != nil {
				return err
			}
			list = append(list, c)
		}
		return nil
	})
	slices.SortFunc(list, func(a, b Conversation) int {
		return cmp.Or(later(b.LastHit, b.Created).Compare(later(a.LastHit, a.Created)),
			cmp.Compare(a.Key.String(), b.Key.String()))
	})
	if filter.Limit > 0 && len(list) > filter.Limit {
		list = list[:filter.Limit]
	}
	return list, err
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Show returns the conversation whose key begins with keyPrefix, which must have at least 4
// hexadecimal digits. A conversation that has grown is still found by its earlier key. The error
// wraps ErrNotFound or ErrAmbiguous.
func (s *Store) Show(keyPrefix string) (Detail, error) {
	var d Detail
	err := s.browse(func(x *index) error {
		f, models, err := readAll(x.db)
		if err != nil {
			return err
		}
		end, err := f.resolve(keyPrefix)
		if err != nil {
			return err
		}
		c, err := f.describe(s.safe(), end, models)
		if err != nil {
			return err
		}
		d = Detail{Conversation: c}
		for _, e := range f.conversation(end) {
			d.Entries = append(d.Entries,
				EntryInfo{e.key, e.kind.String(), e.position, e.n, e.bytes, e.leaves > 1, e.hits})
		}
		slices.SortStableFunc(d.Entries, func(a, b EntryInfo) int {
			return cmp.Or(cmp.Compare(a.Position+a.Tokens, b.Position+b.Tokens),
				cmp.Compare(a.Position, b.Position))
		})
		d.tokens, err = pathTokens(s.safe(), x.db, end)
		return err
	})
	return d, err
}

// pathTokens returns the tokens from position 0 to the end of a chain, or nil if a part of the
// chain is gone.
func pathTokens(safe *safe, q querier, end *node) ([]int32, error) {
	first := end
	var path []*node
	for e := end; e != nil; e = e.above {
		path = append(path, e)
		first = e
	}
	if first.position != 0 {
		return nil, nil
	}
	var tokens []int32
	for _, e := range slices.Backward(path) {
		var r secrets
		err := scanRows(q, "SELECT slot, tokens, codes FROM entries WHERE key = ?",
			func(rows *sql.Rows) error { return rows.Scan(&r.slot, &r.tokens, &r.codes) },
			e.key[:])
		if err != nil {
			return nil, err
		}
		part, err := safe.tokens(r, e.key)
		if errors.Is(err, seal.ErrNoSalt) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		tokens = append(tokens, part...)
	}
	return tokens, nil
}

// Remove removes the conversation's unshared files, pinned or not, and destroys their keys first.
// In an encrypted folder, what the disk still holds of these files is noise when Remove returns.
// Files that the conversation shares with others stay, with their keys, until the last of these is
// removed. keyPrefix is as for Show.
func (s *Store) Remove(keyPrefix string) (Removed, error) {
	var removed Removed
	err := s.browseChange(func(tx *sql.Tx) error {
		f, err := readForest(tx)
		if err != nil {
			return err
		}
		end, err := f.resolve(keyPrefix)
		if err != nil {
			return err
		}
		var some []stored
		for _, e := range f.nodes {
			if e.leaf == end {
				some = append(some, stored{e.key, e.bytes})
			}
		}
		return s.removeEntries(tx, some, &removed)
	})
	return removed, err
}

// RemoveModel removes all entries of a model, in every cache format.
func (s *Store) RemoveModel(fingerprint string) (Removed, error) {
	return s.removeWhere("model IN (SELECT id FROM models WHERE fingerprint = ?)", fingerprint)
}

// Clear removes all entries.
func (s *Store) Clear() (Removed, error) { return s.removeWhere("1") }

// removeWhere removes the entries that meet an SQL condition, children first. It uses several
// transactions, so that other processes can write in between.
func (s *Store) removeWhere(condition string, args ...any) (Removed, error) {
	const batch = 200
	var removed Removed
	for {
		before := removed.Entries
		err := s.browseChange(func(tx *sql.Tx) error {
			var some []stored
			query := fmt.Sprintf(`SELECT key, bytes FROM entries WHERE %s
				ORDER BY position DESC, kind DESC LIMIT %d`, condition, batch)
			err := scanRows(tx, query, func(rows *sql.Rows) error {
				var e stored
				err := rows.Scan(keyColumn{&e.key}, &e.bytes)
				some = append(some, e)
				return err
			}, args...)
			if err != nil {
				return err
			}
			return s.removeEntries(tx, some, &removed)
		})
		if err != nil || removed.Entries == before {
			return removed, err
		}
	}
}

// stored is an entry to remove.
type stored struct {
	key   Key
	bytes int64
}

// removeEntries removes entries, all of their keys first. Unlike eviction, it removes pins on the
// entries and does not move them to the parents.
func (s *Store) removeEntries(tx *sql.Tx, some []stored, removed *Removed) error {
	keys := make([]Key, len(some))
	for i, e := range some {
		keys[i] = e.key
	}
	if err := s.removeFiles(tx, keys...); err != nil {
		return err
	}
	for _, e := range some {
		if _, err := tx.Exec("UPDATE entries SET pin = 0 WHERE key = ?", e.key[:]); err != nil {
			return err
		}
		if _, err := s.dropRow(tx, e.key); err != nil {
			return err
		}
		removed.Entries++
		removed.Bytes += e.bytes
	}
	return nil
}

// browse runs fn on the index, once it has all files and all pending counts. It runs fn again if
// another process has removed a row that fn has read.
func (s *Store) browse(fn func(x *index) error) error {
	if err := s.waitAdopted(); err != nil {
		return err
	}
	s.flush()
	const attempts = 10
	err := s.read(fn)
	for range attempts {
		stale := staleRow{}
		if !errors.As(err, &stale) {
			break
		}
		if err := s.change(func(tx *sql.Tx) error {
			return s.confirmRow(tx, stale.key)
		}); err != nil && !isDamage(err) { // the next read rebuilds a damaged index
			return err
		}
		if err = s.waitAdopted(); err == nil {
			err = s.read(fn)
		}
	}
	return err
}

// browseChange runs fn in a transaction, once the index has all files, and updates the pins.
func (s *Store) browseChange(fn func(tx *sql.Tx) error) error {
	if err := s.waitAdopted(); err != nil {
		return err
	}
	return s.change(func(tx *sql.Tx) error {
		if err := fn(tx); err != nil {
			return err
		}
		return s.repin(tx)
	})
}

// waitAdopted waits until the first sweep of a new index has adopted the folder's files.
func (s *Store) waitAdopted() error {
	var adopted chan struct{}
	if err := s.read(func(x *index) error { adopted = x.adopted; return nil }); err != nil {
		return err
	}
	select {
	case <-adopted:
	case <-s.ctx.Done():
	}
	if s.ctx.Err() != nil {
		return ErrClosed
	}
	return nil
}

// readAll returns the forest, and the models by row ID.
func readAll(q querier) (*forest, map[int64]Model, error) {
	models := map[int64]Model{}
	err := scanRows(q, "SELECT id, fingerprint, format, name FROM models",
		func(rows *sql.Rows) error {
			var id int64
			var m Model
			err := rows.Scan(&id, &m.Fingerprint, &m.Format, &m.Name)
			models[id] = m
			return err
		})
	if err != nil {
		return nil, nil, err
	}
	f, err := readForest(q)
	return f, models, err
}

// describe summarizes the conversation whose last node is end.
func (f *forest) describe(safe *safe, end *node, models map[int64]Model) (Conversation, error) {
	m := models[end.model]
	title, err := safe.title(end.secrets, end.key)
	if err != nil {
		return Conversation{}, err
	}
	c := Conversation{Key: end.key, Model: m.Name, Fingerprint: m.Fingerprint, Format: m.Format,
		Title: title, Tokens: end.position + end.n, Created: time.Unix(end.created, 0),
		Pinned: end.pin}
	for _, e := range f.conversation(end) {
		c.Hits += e.hits
		c.SecondsSaved += e.saved
		if e.hit > 0 {
			c.LastHit = later(c.LastHit, time.Unix(e.hit, 0))
		}
		if e.leaf != end {
			c.SharedBytes += e.bytes
			continue
		}
		c.Bytes += e.bytes
		if created := time.Unix(e.created, 0); created.Before(c.Created) {
			c.Created = created
		}
	}
	return c, nil
}

// resolve returns the end of the only conversation whose key begins with a prefix.
func (f *forest) resolve(keyPrefix string) (*node, error) {
	prefix := strings.ToLower(keyPrefix)
	if len(prefix) < minKeyDigits || len(prefix) > 2*len(Key{}) ||
		strings.Trim(prefix, "0123456789abcdef") != "" {
		return nil, fmt.Errorf("%w: %q: expected %d to %d hexadecimal digits of its key",
			ErrNotFound, keyPrefix, minKeyDigits, 2*len(Key{}))
	}
	var end *node // the matching deepest entry of a conversation
	var old *node // the end of a conversation with another matching unshared entry
	several := false
	for _, e := range f.nodes {
		if e.leaf == nil || !strings.HasPrefix(e.key.String(), prefix) {
			continue
		}
		if e.leaf == e {
			if end != nil {
				return nil, fmt.Errorf("%w: %q: give more digits", ErrAmbiguous, keyPrefix)
			}
			end = e
		}
		several = several || old != nil && old != e.leaf
		old = e.leaf
	}
	switch {
	case end != nil:
		return end, nil
	case several:
		return nil, fmt.Errorf("%w: %q: give more digits", ErrAmbiguous, keyPrefix)
	case old != nil:
		return old, nil
	}
	return nil, fmt.Errorf("%w: %q", ErrNotFound, keyPrefix)
}
