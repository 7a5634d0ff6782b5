package blockstore

// Find and Used collect counts and hits in memory, so they never wait for a transaction. The writer
// adds them to the index, where other processes see them.

import (
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Stats describes the folder. Its counts include all processes that use the folder.
type Stats struct {
	Bytes, MaxBytes int64 // of all entries' files, and their cap; negative: no cap
	Entries         int64
	FreeBytes       int64            // of the disk
	MinFreeBytes    int64            // free disk space to keep; negative: none
	TodayBytes      int64            // written today
	DailyWriteBytes int64            // daily limit; negative: none
	WrittenBytes    int64            // written since WrittenSince
	WrittenSince    time.Time        // creation of the index; zero: unknown
	Hits            int64            // prefixes read and used
	Misses          int64            // Finds that added nothing to the caller's tokens
	SecondsSaved    float64          // computing time that hits saved
	Dropped         int64            // sequences dropped because the queue was full
	Skipped         int64            // sequences that a limit cut short
	Damaged         int64            // entries removed because their file was damaged or missing
	Foreign         int64            // files removed because they are not entries of this version
	Evicted         int64            // entries evicted to make room
	SaveErrors      int64            // sequences whose save failed
	LastSaveError   string           // "" if there was none
	QueuedSequences int              // waiting to be saved, in this process
	BytesByModel    map[string]int64 // by fingerprint
}

// touched is a hit that the index does not record yet.
type touched struct {
	keys    []Key
	deepest Key
	seconds float64
	at      time.Time
}

// pending holds the counts and hits that flush has not written to the index yet.
type pending struct {
	// writing is locked during flush. A goroutine that locks it afterwards sees all earlier counts
	// in the index.
	writing sync.Mutex

	mu       sync.Mutex
	counts   map[string]float64
	lastSave string
	touches  []touched
	warned   map[string]bool // kinds of error already logged
}

// count adds n to a counter.
func (s *Store) count(name string, n float64) {
	s.pending.mu.Lock()
	s.pending.counts[name] += n
	s.pending.mu.Unlock()
}

// warnOnce logs the first error of each kind as a warning, and ignores later ones.
func (s *Store) warnOnce(kind string, err error) {
	if errors.Is(err, ErrClosed) {
		return
	}
	s.pending.mu.Lock()
	first := !s.pending.warned[kind]
	if s.pending.warned == nil {
		s.pending.warned = map[string]bool{}
	}
	s.pending.warned[kind] = true
	s.pending.mu.Unlock()
	if first {
		s.o.Log.Warn("prefix cache on disk: "+kind+" (further errors of this kind are not logged)",
			"dir", s.dir, "error", err)
	}
}

// saveFailed counts and logs a sequence that could not be saved.
func (s *Store) saveFailed(err error) {
	s.pending.mu.Lock() // one flush gets both
	s.pending.counts["save errors"]++
	s.pending.lastSave = err.Error()
	s.pending.mu.Unlock()
	s.warnOnce("save", err)
}

// touchLater queues a hit for the writer to record.
func (s *Store) touchLater(t touched) {
	s.count("hits", 1)
	s.count("seconds saved", t.seconds)
	s.pending.mu.Lock()
	s.pending.touches = append(s.pending.touches, t)
	s.pending.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// flush writes pending counts and touches to the index. If that fails, they stay pending.
func (s *Store) flush() {
	p := &s.pending
	p.writing.Lock()
	defer p.writing.Unlock()
	p.mu.Lock()
	counts, touches, lastSave := p.counts, p.touches, p.lastSave
	p.counts, p.touches, p.lastSave = map[string]float64{}, nil, ""
	p.mu.Unlock()
	if len(counts) == 0 && len(touches) == 0 {
		return
	}
	err := s.change(func(tx *sql.Tx) error {
		for name, n := range counts {
			_, err := tx.Exec(`INSERT INTO counts (name, n) VALUES (?, ?)
				ON CONFLICT DO UPDATE SET n = n + excluded.n`, name, n)
			if err != nil {
				return err
			}
		}
		if lastSave != "" {
			if _, err := tx.Exec("UPDATE counts SET text = ? WHERE name = 'save errors'",
				lastSave); err != nil {
				return err
			}
		}
		for _, t := range touches {
			if err := t.write(tx); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		return
	}
	s.warnOnce("flush", err)
	p.mu.Lock()
	for name, n := range counts {
		p.counts[name] += n
	}
	if p.lastSave == "" {
		p.lastSave = lastSave
	}
	const maxPending = 1000
	if p.touches = append(touches, p.touches...); len(p.touches) > maxPending {
		p.touches = p.touches[len(p.touches)-maxPending:]
	}
	p.mu.Unlock()
}

func (t touched) write(tx *sql.Tx) error {
	clock, err := tick(tx)
	if err != nil {
		return err
	}
	for i := len(t.keys) - 1; i >= 0; i-- {
		var used int64 // clock if touching a later entry has already touched this one
		if err := tx.QueryRow("SELECT coalesce(max(used), ?) FROM entries WHERE key = ?", clock,
			t.keys[i][:]).Scan(&used); err != nil {
			return err
		}
		if used == clock {
			continue
		}
		if err := touch(tx, t.keys[i], clock); err != nil {
			return err
		}
	}
	_, err = tx.Exec("UPDATE entries SET hits = hits + 1, hit = ?, saved = saved + ? WHERE key = ?",
		t.at.Unix(), t.seconds, t.deepest[:])
	return err
}

// Stats returns the store's state. Values that cannot be read are 0.
func (s *Store) Stats() Stats {
	s.flush()
	limits := s.limits.Load()
	st := Stats{MaxBytes: limits.MaxBytes, MinFreeBytes: limits.MinFreeBytes,
		DailyWriteBytes: limits.DailyWriteBytes, QueuedSequences: len(s.queue),
		BytesByModel: map[string]int64{}}
	err := s.read(func(x *index) error { return s.readStats(x, &st) })
	if err != nil {
		s.warnOnce("stats", err)
	}
	if st.FreeBytes, err = s.o.disk.FreeBytes(s.dir); err != nil {
		s.warnOnce("stats", err)
	}
	return st
}

func (s *Store) readStats(x *index, st *Stats) error {
	var day int64
	if err := x.db.QueryRow("SELECT bytes, entries, day, today, ever FROM totals").Scan(
		&st.Bytes, &st.Entries, &day, &st.TodayBytes, &st.WrittenBytes); err != nil {
		return err
	}
	if calendarDay(s.o.now()) > day {
		st.TodayBytes = 0
	}
	counts := map[string]float64{}
	err := scanRows(x.db, "SELECT name, n, text FROM counts", func(rows *sql.Rows) error {
		var name, text string
		var n float64
		if err := rows.Scan(&name, &n, &text); err != nil {
			return err
		}
		if counts[name] = n; name == "save errors" {
			st.LastSaveError = text
		}
		return nil
	})
	if err != nil {
		return err
	}
	for name, n := range map[string]*int64{
		"hits": &st.Hits, "misses": &st.Misses, "dropped": &st.Dropped, "skipped": &st.Skipped,
		"damaged": &st.Damaged, "foreign": &st.Foreign, "evicted": &st.Evicted,
		"save errors": &st.SaveErrors,
	} {
		*n = int64(counts[name])
	}
	st.SecondsSaved = counts["seconds saved"]
	if since := int64(counts[sinceCount]); since > 0 {
		st.WrittenSince = time.Unix(since, 0)
	}
	return scanRows(x.db, `SELECT fingerprint, sum(bytes) FROM entries JOIN models ON id = model
		GROUP BY fingerprint`, func(rows *sql.Rows) error {
		var fingerprint string
		var bytes int64
		err := rows.Scan(&fingerprint, &bytes)
		st.BytesByModel[fingerprint] += bytes
		return err
	})
}

// querier is a database or a transaction.
type querier interface {
	Query(query string, args ...any) (*sql.Rows, error)
}

// scanRows calls see(rows) for each row.
func scanRows(q querier, query string, see func(rows *sql.Rows) error, args ...any) error {
	rows, err := q.Query(query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := see(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// keyColumn scans a key.
type keyColumn struct{ k *Key }

func (c keyColumn) Scan(value any) error {
	b, ok := value.([]byte)
	if !ok || len(b) != len(c.k) {
		return fmt.Errorf("%w: a key of %d bytes", errIndexVersion, len(b))
	}
	copy(c.k[:], b)
	return nil
}
