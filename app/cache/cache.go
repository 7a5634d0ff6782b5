// Package cache manages the prefix cache on SSD: its folder, its limits, and the conversations in
// it. engine/blockstore implements the store. The host passes the store to engines; the control API
// and `headroom cache` show the cache to users.
//
//	cache.go    opening, limits, statistics
//	browse.go   conversations: list, show, pin, remove
//	move.go     moving the cache to another folder
//	file.go     conversations as files
//	folders.go  the folders in which there has been a cache
//
// The types with JSON tags are documents of the control API and of `headroom cache --json`. Fields
// may be added but not renamed. Lists are never null, sizes are in bytes, and times are in
// milliseconds since 1970 (0: never).
package cache

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"headroom/engine"
	"headroom/engine/blockstore"
	"headroom/engine/problem"
	"headroom/engine/seal"
)

// Options configure a cache. Dir is required.
type Options struct {
	Dir string // absolute
	// Limits of the store. A MaxBytes of 0 means 20 GB, or a tenth of the disk if that is less.
	// Other zeros mean the store's defaults.
	Limits engine.BlockStoreOptions
	// Key returns the installation's key, or a Problem. nil: the cache is not encrypted.
	Key func() (seal.Key, error)
	// Folders remembers the folder, so that it can be deleted later. nil: nothing does.
	Folders *Folders
}

// Cache is an open cache. Its methods are safe for concurrent use. The caller must close it.
type Cache struct {
	dir   string
	store *engine.BlockStore

	mu      sync.Mutex
	last    Stats
	at      time.Time // when last was read; zero: last is stale
	reading sync.WaitGroup
	busy    bool // a goroutine of reading runs
	closed  bool
}

// DefaultDir returns "headroom/blocks" in the user's cache folder, which backups skip. It returns
// "" if the user has no cache folder.
func DefaultDir() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "headroom", "blocks")
}

// Exists reports whether the folder has a cache. It creates nothing.
func Exists(dir string) bool { return blockstore.Exists(dir) }

// Open opens the cache and creates its folder if necessary. Other processes may have it open too.
// Without the installation's key there is no cache: it is not written in plain text instead.
func Open(o Options) (*Cache, error) {
	c := &Cache{dir: o.Dir}
	o.Limits.MaxBytes = c.capOf(o.Limits.MaxBytes)
	if o.Key != nil {
		key, err := o.Key()
		if err != nil {
			return nil, err
		}
		o.Limits.Key = &key
	}
	var err error
	if c.store, err = engine.OpenBlockStore(o.Dir, o.Limits); err != nil {
		return nil, openProblem(err, o.Dir)
	}
	o.Folders.Remember(o.Dir) // not one that was refused: it is another installation's
	return c, nil
}

// openProblem turns errors of encryption into Problems. The folder stays as it is.
func openProblem(err error, dir string) error {
	switch {
	case errors.Is(err, blockstore.ErrOtherKey):
		return problem.New(problem.Locked, "The cache in "+dir+" cannot be read",
			"it was encrypted with another key, perhaps on another computer or by another user",
			"Export its key there with `headroom cache export-key` and import it here with "+
				"`headroom cache import-key`, or choose another folder.")
	case errors.Is(err, blockstore.ErrEncrypted):
		return problem.New(problem.Locked, "The cache in "+dir+" is encrypted",
			"the settings or a flag say that it is not",
			"Run `headroom cache clear`, choose another folder, or turn encryption on again.")
	}
	return err
}

// Encrypted reports whether the folder has an encrypted cache.
func Encrypted(dir string) bool { return blockstore.Encrypted(dir) }

// ExportKey returns the key of an encrypted folder as text, for ImportKey of another installation.
// It opens nothing else. The error is a Problem.
func ExportKey(dir string, installation seal.Key) (string, error) {
	key, err := blockstore.ExportKey(dir, installation)
	if err != nil {
		return "", keyProblem(err, dir)
	}
	return seal.FormatKey(key), nil
}

// ImportKey hands a folder that another installation has encrypted to this one. The error is a
// Problem.
func ImportKey(dir, text string, installation seal.Key) error {
	key, err := seal.ParseKey(strings.TrimSpace(text))
	if err != nil {
		return problem.Wrap(problem.BadRequest, err, "This is not the key of a cache",
			"Use a file that `headroom cache export-key` has written.")
	}
	err = blockstore.ImportKey(dir, key, installation)
	if errors.Is(err, blockstore.ErrOtherKey) {
		return problem.New(problem.BadRequest, "This is not the key of the cache in "+dir,
			"it belongs to another folder", "Export the key of the folder that was copied.")
	}
	return keyProblem(err, dir)
}

func keyProblem(err error, dir string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrNotExist):
		return problem.New(problem.NotFound, "There is no encrypted cache in "+dir, "", "")
	case errors.Is(err, blockstore.ErrOtherKey):
		return openProblem(err, dir)
	}
	return problem.Wrap(problem.Internal, err, "The key of the cache in "+dir+" cannot be used", "")
}

// defaultCap returns the default cap on a disk of diskBytes. For a disk of unknown size (0) it is
// 0, the store's default.
func defaultCap(diskBytes int64) int64 { return min(20e9, diskBytes/10) }

// diskBytes returns the size of the disk that holds dir, or will hold it; 0 if it is unknown.
func diskBytes(dir string) int64 {
	for {
		var s unix.Statfs_t
		if unix.Statfs(dir, &s) == nil {
			return int64(s.Blocks) * int64(s.Bsize)
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return 0
		}
		dir = parent
	}
}

// SetLimits changes the limits of the open cache. Zeros have the same meaning as in Options. If the
// cache is larger than the new cap, SetLimits evicts unpinned entries. The error is a Problem.
func (c *Cache) SetLimits(l engine.BlockStoreLimits) error {
	l.MaxBytes = c.capOf(l.MaxBytes)
	if err := c.store.SetLimits(l); err != nil {
		return problemOf(err, "")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = time.Time{} // makes Recent read again
	return nil
}

// capOf returns maxBytes, or the default cap if maxBytes is 0.
func (c *Cache) capOf(maxBytes int64) int64 {
	if maxBytes == 0 {
		return defaultCap(diskBytes(c.dir))
	}
	return maxBytes
}

// Store returns the store for engines. The cache still owns it.
func (c *Cache) Store() *engine.BlockStore { return c.store }

// Close waits a few seconds for pending writes and closes the store. Engines that use the store
// must be closed first.
func (c *Cache) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.reading.Wait()
	return c.store.Close()
}

// Stats is the JSON document of the cache's statistics.
type Stats struct {
	On              bool    `json:"on"`
	Dir             string  `json:"dir"`
	Bytes           int64   `json:"bytes"`
	MaxBytes        int64   `json:"maxBytes"` // negative: no cap
	Entries         int64   `json:"entries"`
	DiskBytes       int64   `json:"diskBytes"`       // size of the disk; 0: unknown
	FreeBytes       int64   `json:"freeBytes"`       // of it
	MinFreeBytes    int64   `json:"minFreeBytes"`    // reserve of it; negative: none
	TodayBytes      int64   `json:"todayBytes"`      // written today
	DailyWriteBytes int64   `json:"dailyWriteBytes"` // daily limit; negative: none
	WrittenBytes    int64   `json:"writtenBytes"`    // since WrittenSince
	WrittenSince    int64   `json:"writtenSince"`    // creation of the index; 0: unknown
	Hits            int64   `json:"hits"`            // prefixes loaded from disk
	Misses          int64   `json:"misses"`          // lookups that found no more than memory has
	SecondsSaved    float64 `json:"secondsSaved"`
	Dropped         int64   `json:"dropped"`       // sequences dropped because the queue was full
	Skipped         int64   `json:"skipped"`       // sequences that a limit cut short
	Damaged         int64   `json:"damaged"`       // damaged files that were removed
	OtherVersions   int64   `json:"otherVersions"` // files of other versions that were removed
	Evicted         int64   `json:"evicted"`
	SaveErrors      int64   `json:"saveErrors"`
	// Error is the last write error, or why the cache could not be opened; "": none.
	Error string `json:"error"`
	// MemoryBytes is the memory of cached keys and values that no running request uses; 0 without a
	// model.
	MemoryBytes int64 `json:"memoryBytes"`
}

// Stats reads the statistics.
func (c *Cache) Stats() Stats {
	s := c.store.Stats()
	return Stats{On: true, Dir: c.dir, Bytes: s.Bytes, MaxBytes: s.MaxBytes, Entries: s.Entries,
		DiskBytes: diskBytes(c.dir), FreeBytes: s.FreeBytes, MinFreeBytes: s.MinFreeBytes,
		TodayBytes: s.TodayBytes, DailyWriteBytes: s.DailyWriteBytes, WrittenBytes: s.WrittenBytes,
		WrittenSince: unixMs(s.WrittenSince), Hits: s.Hits, Misses: s.Misses,
		SecondsSaved: s.SecondsSaved, Dropped: s.Dropped, Skipped: s.Skipped, Damaged: s.Damaged,
		OtherVersions: s.Foreign, Evicted: s.Evicted,
		SaveErrors: s.SaveErrors, Error: s.LastSaveError}
}

// recentAge is the age from which Recent refreshes its statistics.
const recentAge = 2 * time.Second

// Recent returns statistics that are a few seconds old. It refreshes them in the background; only
// the first call waits for the disk. After Close it returns the last statistics.
func (c *Cache) Recent() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
	case c.at.IsZero():
		c.last, c.at = c.Stats(), time.Now()
	case time.Since(c.at) > recentAge && !c.busy:
		c.busy = true
		c.reading.Go(func() {
			s := c.Stats()
			c.mu.Lock()
			defer c.mu.Unlock()
			c.last, c.at, c.busy = s, time.Now(), false
		})
	}
	return c.last
}
