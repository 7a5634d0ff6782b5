package blockstore

import "database/sql"

// Limits bound what a store takes of the disk, as the fields of Options with the same names: 0 is
// the default, below 0 no limit.
type Limits struct {
	MaxBytes, MinFreeBytes, DailyWriteBytes int64
	// Sparing has only what went on from a stored or remembered prefix written (Sequence.Reused),
	// as when half of the day's budget is gone.
	Sparing bool
}

func (l Limits) withDefaults() Limits {
	number := func(n *int64, by int64) {
		if *n == 0 {
			*n = by
		}
	}
	number(&l.MaxBytes, 20e9)
	number(&l.MinFreeBytes, 10e9)
	number(&l.DailyWriteBytes, 40e9)
	return l
}

// SetLimits changes the limits of an open store. They hold for what is written from now on; where
// the cap has become less than what is stored, what was used least recently is evicted before
// SetLimits returns, but for what is pinned. Other processes keep theirs.
func (s *Store) SetLimits(l Limits) error {
	l = l.withDefaults()
	s.limits.Store(&l)
	return s.change(s.evictOver)
}

// Limits are those that hold now.
func (s *Store) Limits() Limits { return *s.limits.Load() }

// Dir is the store's folder, as an absolute path.
func (s *Store) Dir() string { return s.dir }

// evictOver brings the store under its cap.
func (s *Store) evictOver(tx *sql.Tx) error {
	most := s.limits.Load().MaxBytes
	if most < 0 || s.o.Visit {
		return nil
	}
	var bytes int64
	if err := tx.QueryRow("SELECT bytes FROM totals").Scan(&bytes); err != nil {
		return err
	}
	_, err := s.evict(tx, bytes-most, nil)
	return err
}
