package blockstore

import (
	"database/sql"
	"errors"

	"headroom/engine/seal"
)

// Limits bound the disk space and the writes of a store. MaxBytes, MinFreeBytes and DailyWriteBytes
// are as in Options: 0 means the default, a negative value no limit.
type Limits struct {
	MaxBytes, MinFreeBytes, DailyWriteBytes int64
	// Sparing applies the rule for the last three quarters of the daily budget to all of it: only
	// sequences that resumed a cached prefix (Sequence.Reused) are written.
	Sparing bool
}

func (l Limits) withDefaults() Limits {
	setDefault := func(n *int64, value int64) {
		if *n == 0 {
			*n = value
		}
	}
	setDefault(&l.MaxBytes, 20e9)
	setDefault(&l.MinFreeBytes, 10e9)
	setDefault(&l.DailyWriteBytes, 40e9)
	return l
}

// SetLimits changes the limits of an open store, for all later writes. If more is stored than the
// new cap allows, SetLimits evicts the least recently used unpinned entries before it returns.
// Other processes keep their own limits.
func (s *Store) SetLimits(l Limits) error {
	l = l.withDefaults()
	s.limits.Store(&l)
	return errors.Join(s.change(s.evictOver), s.syncKeys())
}

// Limits returns the current limits.
func (s *Store) Limits() Limits { return *s.limits.Load() }

// Key returns the installation's key that the store was opened with; nil: the folder is not
// encrypted.
func (s *Store) Key() *seal.Key { return s.o.Key }

// Dir returns the absolute path of the store's folder.
func (s *Store) Dir() string { return s.dir }

// evictOver evicts entries until the store is within its cap.
func (s *Store) evictOver(tx *sql.Tx) error {
	maxBytes := s.limits.Load().MaxBytes
	if maxBytes < 0 || s.o.Visit {
		return nil
	}
	var bytes int64
	if err := tx.QueryRow("SELECT bytes FROM totals").Scan(&bytes); err != nil {
		return err
	}
	_, err := s.evict(tx, bytes-maxBytes, nil)
	return err
}
