package blockstore

// What the store counts. Counters and hits are gathered in memory and written to the index by the
// writer, so that Find and Load never wait for a transaction, and another process sees them too.

import (
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Stats is the store's state: of the folder, not of this process alone.
type Stats struct {
	Bytes, MaxBytes int64 // of all entries' files, and their cap; below 0: none
	Entries         int64
	FreeBytes       int64     // of the disk
	MinFreeBytes    int64     // the reserve; below 0: none
	TodayBytes      int64     // written today
	DailyWriteBytes int64     // the day's budget; below 0: no limit
	WrittenBytes    int64     // written since ever
	WrittenSince    time.Time // when ever began: the index was made; zero: unknown
	// Loads that succeeded; Finds that found nothing beyond what the caller had
	Hits, Misses int64
	SecondsSaved float64
	Dropped      int64 // sequences that found the queue full
	Skipped      int64 // sequences that a limit cut short
	// files removed because their content was wrong, or missing behind their row
	Damaged         int64
	Foreign         int64 // files removed because they were no entries of this version
	Evicted         int64
	SaveErrors      int64
	LastSaveError   string // "" if there was none
	QueuedSequences int    // of this process, waiting to be saved
	BytesByModel    map[string]int64
}

// touched is a Load to be written down.
type touched struct {
	keys    []Key
	deepest Key
	seconds float64
	at      time.Time
}

// pending is what the writer has yet to write down.
type pending struct {
	// held while they are written down: who waits for it sees the index with all of them
	writing sync.Mutex

	mu       sync.Mutex
	counts   map[string]float64
	lastSave string
	touches  []touched
	noted    map[string]bool // kinds of error that are in the log
}

// count adds n to a counter.
func (s *Store) count(name string, n float64) {
	s.pending.mu.Lock()
	s.pending.counts[name] += n
	s.pending.mu.Unlock()
}

// note logs an error, the first of its kind as a warning.
func (s *Store) note(kind string, err error) {
	if errors.Is(err, ErrClosed) {
		return
	}
	s.pending.mu.Lock()
	first := !s.pending.noted[kind]
	if s.pending.noted == nil {
		s.pending.noted = map[string]bool{}
	}
	s.pending.noted[kind] = true
	s.pending.mu.Unlock()
	if first {
		s.o.Log.Warn("block cache: "+kind+" (further ones are counted, not logged)", "dir", s.dir,
			"error", err)
	}
}

// saveFailed counts and logs an entry that could not be written.
func (s *Store) saveFailed(err error) {
	s.count("save errors", 1)
	s.pending.mu.Lock()
	s.pending.lastSave = err.Error()
	s.pending.mu.Unlock()
	s.note("save", err)
}

// touchLater leaves a Load to the writer.
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

// flush writes down what is pending. What cannot be written waits for the next time.
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
			if _,
				err :=
				tx.Exec(
					"INSERT INTO counts (name, n) VALUES (?, ?) ON CONFLICT DO UPDATE SET n = n + "+
						"excluded.n", name, n); err != nil {
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
	s.note("flush", err)
	p.mu.Lock()
	for name, n := range counts {
		p.counts[name] += n
	}
	if p.lastSave == "" {
		p.lastSave = lastSave
	}
	const most = 1000 // Loads remembered while the index cannot be written
	if p.touches = append(touches, p.touches...); len(p.touches) > most {
		p.touches = p.touches[len(p.touches)-most:]
	}
	p.mu.Unlock()
}

func (t touched) write(tx *sql.Tx) error {
	clock, err := tick(tx)
	if err != nil {
		return err
	}
	for i := len(t.keys) - 1; i >= 0; i-- {
		var used int64 // the first touch goes up to the chain's beginning; what it passed is done
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

// Stats reads the store's state. Figures that cannot be read are 0.
func (s *Store) Stats() Stats {
	s.flush()
	limits := s.limits.Load()
	st := Stats{MaxBytes: limits.MaxBytes, MinFreeBytes: limits.MinFreeBytes,
		DailyWriteBytes: limits.DailyWriteBytes,
		QueuedSequences: len(s.queue), BytesByModel: map[string]int64{}}
	err := s.read(func(x *index) error { return s.readStats(x, &st) })
	if err != nil {
		s.note("stats", err)
	}
	if st.FreeBytes, err = s.o.disk.FreeBytes(s.dir); err != nil {
		s.note("stats", err)
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
	for name, n := range map[string]*int64{"hits": &st.Hits, "misses": &st.Misses,
		"dropped": &st.Dropped, "skipped": &st.Skipped,
		"damaged": &st.Damaged, "foreign": &st.Foreign, "evicted": &st.Evicted,
		"save errors": &st.SaveErrors} {
		*n = int64(counts[name])
	}
	st.SecondsSaved = counts["seconds saved"]
	if since := int64(counts[sinceCount]); since > 0 {
		st.WrittenSince = time.Unix(since, 0)
	}
	return scanRows(x.db,
		"SELECT fingerprint, sum(bytes) FROM entries JOIN models ON id = model GROUP BY "+
			"fingerprint", func(rows *sql.Rows) error {
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

// scanRows calls see for each row.
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
