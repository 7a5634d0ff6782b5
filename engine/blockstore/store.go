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

	"github.com/gofrs/flock"

	"headroom/engine/seal"
)

// Options configures a store. The zero value is ready to use. SetLimits changes the first three
// fields of an open store.
type Options struct {
	MaxBytes        int64 // cap on the total size of all entries; 0: 20 GB; negative: no cap
	MinFreeBytes    int64 // free disk space to keep; 0: 10 GB; negative: none
	DailyWriteBytes int64 // limit on writes per calendar day; 0: 40 GB; negative: no limit

	QueueSequences int           // sequences that may wait to be saved; 0: 16
	Readers        int           // files that one Read reads concurrently; 0: 4
	CloseTimeout   time.Duration // how long Close waits for queued sequences; 0: 10 s
	Log            *slog.Logger  // nil: slog.Default
	// Visit is for a command that opens the folder of a running server: the store then evicts
	// nothing to reach MaxBytes.
	Visit bool
	// Key is the installation's key. A folder that has no entries yet, or plain ones, which are
	// removed, becomes encrypted. nil: the folder is not encrypted.
	Key *seal.Key

	disk disk             // nil: osDisk
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

// Errors that callers can test for with errors.Is.
var (
	ErrDamaged = errors.New("blockstore: an entry is damaged or gone")
	ErrBudget  = errors.New("blockstore: a limit forbids the write")
	ErrClosed  = errors.New("blockstore: the store is closed")
	// ErrNoPieces means that a Sequence has returned no pieces for a block or a state.
	ErrNoPieces = errors.New("blockstore: there are no pieces to save")
)

// Store is an open folder of entries. Its methods are safe for concurrent use, and other processes
// may open the same folder.
type Store struct {
	dir    string
	o      Options                // as opened; limits has the current limits
	limits atomic.Pointer[Limits] // never nil

	ctx      context.Context // ends when Close stops waiting; no new work starts then
	cancel   context.CancelFunc
	written  chan struct{}  // closed when the writer returns
	swept    sync.WaitGroup // running sweeps
	sweeping atomic.Bool    // a sweep by sweepAgain is running

	indexMu sync.RWMutex // locked for reading to use the index, for writing to replace it
	index   *index       // nil: reopening failed; the next use tries again
	broken  atomic.Bool  // a query found the index damaged
	// sealer has nil if the folder is not encrypted. It is changed with index.
	sealer atomic.Pointer[safe]

	keysDirty atomic.Bool // slots have changed since the last sync
	keysMu    sync.Mutex  // held during a sync of slots
	writeMu   sync.Mutex  // serializes writing transactions, because SQLite waits by sleeping

	owner string       // unique; part of the names of temporary files, and of unfinished rows
	lock  *flock.Flock // held while the store is open
	temps atomic.Int64

	queueMu sync.Mutex // guards closed and sends into queue
	closed  bool
	queue   chan job
	wake    chan struct{} // tells the writer that touches are pending
	pending pending

	loadMu  sync.Mutex
	loading map[Key]int // number of Reads that are reading an entry, which is not evicted
}

// Open opens the store in dir and creates the folder if necessary. In the background it rebuilds a
// damaged index from the files and removes leftovers of crashed processes.
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
	s.owner = newOwner()
	s.queue = make(chan job, s.o.QueueSequences)
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if err := s.reopen(nil); err != nil {
		s.cancel()
		err = errors.Join(err, s.release())
		return nil, fmt.Errorf("blockstore: open %s: %w", dir, err)
	}
	go s.write()
	return s, nil
}

// newOwner returns the owner of an open store.
func newOwner() string { return fmt.Sprintf("%d-%016x", os.Getpid(), rand.Uint64()) }

// Model identifies the model and cache format of entries. Find never returns entries of another
// fingerprint or format.
type Model struct {
	Fingerprint string // of the weights and everything else that keys and values depend on
	Format      string // of the cache's bytes
	Name        string // display name; not part of any key
}

// View gives access to the entries of one model.
type View struct {
	store *Store
	model Model
	keys  keys
}

// Model returns the view of one model.
func (s *Store) Model(m Model) *View {
	return &View{store: s, model: m, keys: newKeys(m.Fingerprint, m.Format, s.safe().secret())}
}

// Close waits for queued saves for at most CloseTimeout. Saves that have not run by then fail with
// ErrClosed. Then it removes the temporary files of this store. A second Close does nothing.
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
	s.cancel() // the next opening continues an interrupted sweep
	// Taking the lock waits for a concurrent reopen, which may start a sweep. Later ones fail,
	// because s.ctx has ended. So Wait sees every sweep.
	s.indexMu.Lock()
	s.indexMu.Unlock()
	s.swept.Wait()
	s.indexMu.Lock()
	defer s.indexMu.Unlock()
	err := errors.Join(s.syncKeys(), s.release())
	if s.index != nil {
		err = errors.Join(err, s.index.close())
		s.index = nil
	}
	if err != nil {
		return fmt.Errorf("blockstore: close: %w", err)
	}
	return nil
}

// release removes the temporary files of this store, its lock file too, and closes what it has open
// but the index.
func (s *Store) release() error {
	err := s.removeOwner(s.owner)
	if s.safe() != nil {
		err = errors.Join(err, s.safe().slots.Close())
	}
	if s.lock != nil {
		err = errors.Join(err, s.lock.Close())
	}
	return err
}

// reopen creates the folders and opens the index. old is the index that the caller cannot use: nil,
// damaged, or no longer the folder's. If another goroutine has reopened the index since, reopen
// does nothing.
func (s *Store) reopen(old *index) error {
	s.indexMu.Lock()
	defer s.indexMu.Unlock()
	if s.index != old {
		return nil
	}
	if s.ctx.Err() != nil {
		return ErrClosed
	}
	if err := makeFolder(s.o.disk, s.dir); err != nil {
		return err
	}
	for _, sub := range []string{blocksDir, tempDir} {
		if err := s.o.disk.MkdirAll(filepath.Join(s.dir, sub)); err != nil {
			return err
		}
	}
	if !s.lockInPlace() {
		lock, err := lockFile(s.lockPath(s.owner), lockWait)
		if err != nil {
			return err
		}
		if s.lock != nil {
			s.lock.Close()
		}
		s.lock = lock
	}
	// The damage concerns the index that this store has open, not one that replaced it.
	damaged := s.broken.Load() && old != nil && !old.replaced(filepath.Join(s.dir, indexName))
	x, err := s.openLocked(damaged)
	if err != nil {
		return err
	}
	if old != nil {
		old.close() // no longer the folder's index; its errors do not matter
	}
	if x.aside != "" {
		s.warnOnce("aside", fmt.Errorf("%s is not an index of Headroom's; it is now %s",
			filepath.Join(s.dir, indexName), x.aside))
	}
	s.broken.Store(false)
	s.index = x
	s.swept.Go(func() { s.sweep(x) })
	return nil
}

// safe returns what encrypts the folder's entries, nil for nothing.
func (s *Store) safe() *safe { return s.sealer.Load() }

// openLocked opens the file of slots and the index, while no other process does.
func (s *Store) openLocked(force bool) (*index, error) {
	lock, err := lockFile(filepath.Join(s.dir, lockName), lockWait)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	held := s.safe()
	opened, err := s.openSafe(held)
	if err != nil {
		return nil, err
	}
	if held != nil && opened != held {
		held.slots.Close() // the file was removed; its folder's key is still the same
	}
	s.sealer.Store(opened)
	return openIndex(s.dir, s.tempPath(), opened != nil, force)
}

// lockPath returns the path of an owner's lock file.
func (s *Store) lockPath(owner string) string {
	return filepath.Join(s.dir, tempDir, owner+".lock")
}

// lockInPlace reports whether the lock file that this store holds is still in the folder.
func (s *Store) lockInPlace() bool {
	if s.lock == nil {
		return false
	}
	named, err := isAt(s.lock, s.lockPath(s.owner))
	return err == nil && named
}

// read runs fn with the folder's current index.
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
	return errors.New("blockstore: other processes keep replacing the index")
}

// change runs fn in a writing transaction.
func (s *Store) change(fn func(tx *sql.Tx) error) error {
	return s.read(func(x *index) error {
		s.writeMu.Lock()
		defer s.writeMu.Unlock()
		return x.tx(fn)
	})
}
