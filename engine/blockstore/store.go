package blockstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

// Options of a store. The zero value works. The first three are limits, which SetLimits can change.
type Options struct {
	MaxBytes        int64 // cap on the sum of all entries' files; 0: 20 GB; below 0: none
	MinFreeBytes    int64 // free disk never to go below; 0: 10 GB; below 0: none
	DailyWriteBytes int64 // written per calendar day; 0: 40 GB; below 0: no limit

	QueueSequences int           // sequences that may wait to be saved; 0: 16
	Readers        int           // files that one Load reads at once; 0: 4
	CloseTimeout   time.Duration // how long Close waits for what is queued; 0: 10 s
	Log            *slog.Logger  // nil: slog.Default
	// the folder is another's (a command beside a running server): opening evicts nothing to reach
	// MaxBytes
	Visit bool

	disk disk             // nil: the real one
	now  func() time.Time // nil: time.Now
}

func (o Options) withDefaults() Options {
	if o.QueueSequences <= 0 {
		o.QueueSequences = 16
	}
	if o.Readers <= 0 {
		o.Readers = 4
	}
	if o.CloseTimeout <= 0 {
		o.CloseTimeout = 10 * time.Second
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.disk == nil {
		o.disk = osDisk{}
	}
	if o.now == nil {
		o.now = time.Now
	}
	return o
}

// Errors to ask for with errors.Is.
var (
	ErrDamaged = errors.New("blockstore: an entry is damaged or gone")
	ErrBudget  = errors.New("blockstore: not written to stay within a limit")
	ErrClosed  = errors.New("blockstore: the store is closed")
)

// Store is one folder of entries. Its methods may be called from several goroutines, and other
// processes may open the same folder.
type Store struct {
	dir    string
	o      Options                // but for the limits
	limits atomic.Pointer[Limits] // never nil

	ctx      context.Context // ends when Close gives up waiting: nothing new is begun
	cancel   context.CancelFunc
	written  chan struct{}  // closed when the writer has ended
	swept    sync.WaitGroup // the sweeps
	sweeping atomic.Bool    // one that a missing file began

	// held for reading while the index is used, for writing while it is exchanged
	indexMu sync.RWMutex
	index   *index      // nil: could not be opened again; the next use tries
	broken  atomic.Bool // the index said that it is damaged
	writeMu sync.Mutex  // one writing transaction at a time: SQLite waits by sleeping

	owner string   // names this store's temporary files and rows that it is writing
	lock  *os.File // held while this store lives
	temps atomic.Int64

	queueMu sync.Mutex // guards closed and sends into queue
	closed  bool
	queue   chan job
	wake    chan struct{} // touches wait
	pending pending

	loadMu  sync.Mutex
	loading map[Key]int // entries that Loads are reading now: not to be evicted
}

// Open opens the store in dir, which is made if need be. An index that is damaged is made again
// from the files, in the background, where leftovers of processes that died are removed too.
func Open(dir string, o Options) (*Store, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("blockstore: %w", err)
	}
	s := &Store{dir: dir, o: o.withDefaults(), wake: make(chan struct{}, 1),
		written: make(chan struct{}), loading: map[Key]int{}}
	s.pending.counts = map[string]float64{}
	limits := Limits{MaxBytes: o.MaxBytes, MinFreeBytes: o.MinFreeBytes,
		DailyWriteBytes: o.DailyWriteBytes}.withDefaults()
	s.limits.Store(&limits)
	s.owner = fmt.Sprintf("%d-%016x", os.Getpid(), rand.Uint64())
	s.queue = make(chan job, s.o.QueueSequences)
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if err := s.reopen(nil); err != nil {
		s.cancel()
		return nil, fmt.Errorf("blockstore: open %s: %w", dir, err)
	}
	go s.write()
	return s, nil
}

// Model is what entries belong to. Entries of another fingerprint or format are never found.
type Model struct {
	Fingerprint string // of the weights and whatever else keys and values depend on
	Format      string // of the cache's bytes
	Name        string // for people; in no key
}

// View is the store as one model sees it.
type View struct {
	store *Store
	model Model
	keys  keys
}

// Model is the view of one model.
func (s *Store) Model(m Model) *View {
	return &View{store: s, model: m, keys: newKeys(m.Fingerprint, m.Format)}
}

// Close waits for queued saves, at most CloseTimeout; what did not get its turn is answered with
// ErrClosed. Then it removes the store's own temporary files. A second Close does nothing.
func (s *Store) Close() error {
	s.queueMu.Lock()
	if s.closed {
		s.queueMu.Unlock()
		return nil
	}
	s.closed = true
	close(s.queue)
	s.queueMu.Unlock()
	timer := time.AfterFunc(s.o.CloseTimeout, s.cancel)
	<-s.written
	timer.Stop()
	s.cancel() // a sweep goes on at the next opening
	// whoever was opening the index has begun his sweep by now, and nobody will begin another
	s.indexMu.Lock()
	s.indexMu.Unlock()
	s.swept.Wait()
	s.indexMu.Lock()
	defer s.indexMu.Unlock()
	err := s.removeOwner(s.owner)
	if s.lock != nil {
		err = errors.Join(err, s.lock.Close())
	}
	if s.index != nil {
		err = errors.Join(err, s.index.close())
		s.index = nil
	}
	if err != nil {
		return fmt.Errorf("blockstore: close: %w", err)
	}
	return nil
}

// reopen opens the index, and makes the folders, when there is none, or when the one that is open
// is damaged or no longer in its place; old is the one that the caller saw.
func (s *Store) reopen(old *index) error {
	s.indexMu.Lock()
	defer s.indexMu.Unlock()
	if s.index != old {
		return nil // somebody else did it
	}
	if s.ctx.Err() != nil {
		return ErrClosed
	}
	for _, sub := range []string{"", blocksDir, tempDir} {
		if err := s.o.disk.MkdirAll(filepath.Join(s.dir, sub)); err != nil {
			return err
		}
	}
	lockPath := filepath.Join(s.dir, tempDir, s.owner+".lock")
	if s.lock == nil || !sameFile(s.lock, lockPath) {
		lock, err := lockFile(lockPath, true)
		if err != nil {
			return err
		}
		if s.lock != nil {
			s.lock.Close()
		}
		s.lock = lock
	}
	// Damaged is what this store has open; what another process put in its place is not.
	damaged := s.broken.Load() && old != nil && !old.replaced(filepath.Join(s.dir, indexName))
	x, err := openIndex(s.dir, damaged)
	if err != nil {
		return err
	}
	if old != nil {
		old.close() // it is not the folder's index any more
	}
	s.broken.Store(false)
	s.index = x
	s.swept.Go(func() { s.sweep(x) })
	return nil
}

func sameFile(f *os.File, path string) bool {
	held, err := f.Stat()
	named, nameErr := os.Stat(path)
	return err == nil && nameErr == nil && os.SameFile(held, named)
}

// read runs fn with the index of the folder as it is now.
func (s *Store) read(fn func(x *index) error) error {
	for range 2 {
		s.indexMu.RLock()
		x := s.index
		if x != nil && !s.broken.Load() && !x.replaced(filepath.Join(s.dir, indexName)) {
			err := fn(x)
			s.indexMu.RUnlock()
			if err != nil && isDamage(err) {
				s.broken.Store(true)
			}
			return err
		}
		s.indexMu.RUnlock()
		if err := s.reopen(x); err != nil {
			return err
		}
	}
	return errors.New("blockstore: the index is being exchanged again and again")
}

// change runs fn in a writing transaction.
func (s *Store) change(fn func(tx *sql.Tx) error) error {
	return s.read(func(x *index) error {
		s.writeMu.Lock()
		defer s.writeMu.Unlock()
		return x.tx(fn)
	})
}
