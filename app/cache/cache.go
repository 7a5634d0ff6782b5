// Package cache is the block cache on SSD as people meet it: where it lies, what it may take, what
// is in it, in words and documents. The store itself is engine/blockstore; the host hands it to
// engines, the control API and `headroom cache` show it.
//
//	cache.go  opening, limits, figures
//	browse.go conversations: list, show, pin, remove
//
// The documents are JSON of the control API and of `headroom cache --json`: fields may be added but
// not renamed, lists are never null, sizes are in bytes, times in milliseconds since 1970 (0:
// never).
package cache

import (
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"headroom/engine"
)

// Options say where the cache lies. The zero value: nowhere.
type Options struct {
	Dir string // "": there is none
	// Limits bound what it takes. A MaxBytes of 0 is 20 GB, or a tenth of the disk if that is less;
	// other zeros are the store's defaults.
	Limits engine.BlockStoreOptions
}

// Cache is an open store. Its methods may be called from any goroutine. Close ends it.
type Cache struct {
	dir   string
	store *engine.BlockStore

	mu      sync.Mutex
	last    Stats
	at      time.Time // of last; zero: never asked
	reading sync.WaitGroup
	busy    bool // reading is
	closed  bool
}

// DefaultDir is "headroom/blocks" in the user's cache folder ("" if there is none), which backups
// leave out.
func DefaultDir() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "headroom", "blocks")
}

// Exists tells whether there is a cache in the folder, without making one.
func Exists(dir string) bool {
	for _, name := range []string{"index.sqlite", "blocks"} {
		// without its index it can be read again
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return true
		}
	}
	return false
}

// Open opens the cache, whose folder is made if need be. Other processes may have it open too.
func Open(o Options) (*Cache, error) {
	c := &Cache{dir: o.Dir}
	o.Limits.MaxBytes = c.capOf(o.Limits.MaxBytes)
	var err error
	if c.store, err = engine.OpenBlockStore(o.Dir, o.Limits); err != nil {
		return nil, err
	}
	return c, nil
}

// usualCap is what the cache takes of a disk of that size, unless somebody names a size. A disk of
// unknown size has the store's default.
func usualCap(disk int64) int64 { return min(20e9, disk/10) }

// diskBytes is the size of the disk that the folder is, or will be, on; 0 if it is unknown.
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

// SetLimits changes the limits of the open cache; zeros mean what they mean in Options. What is
// over a lower cap is evicted before it returns, but for what is pinned. The error is a Problem.
func (c *Cache) SetLimits(l engine.BlockStoreLimits) error {
	l.MaxBytes = c.capOf(l.MaxBytes)
	if err := c.store.SetLimits(l); err != nil {
		return problemOf(err, "")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = time.Time{} // the next figures are to show it
	return nil
}

// capOf is the cap that is meant.
func (c *Cache) capOf(asked int64) int64 {
	if asked == 0 {
		return usualCap(diskBytes(c.dir))
	}
	return asked
}

// Store is what engines take. It stays the cache's.
func (c *Cache) Store() *engine.BlockStore { return c.store }

// Close waits for what is being written, some seconds at most. Engines that use the store must be
// closed before.
func (c *Cache) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.reading.Wait()
	return c.store.Close()
}

// Stats is the document of the cache's figures.
type Stats struct {
	On              bool    `json:"on"`
	Dir             string  `json:"dir"`
	Bytes           int64   `json:"bytes"`
	MaxBytes        int64   `json:"maxBytes"` // below 0: no cap
	Entries         int64   `json:"entries"`
	DiskBytes       int64   `json:"diskBytes"`       // size of the disk; 0: unknown
	FreeBytes       int64   `json:"freeBytes"`       // of it
	MinFreeBytes    int64   `json:"minFreeBytes"`    // of it left alone; below 0: nothing
	TodayBytes      int64   `json:"todayBytes"`      // written today
	DailyWriteBytes int64   `json:"dailyWriteBytes"` // at most; below 0: no limit
	WrittenBytes    int64   `json:"writtenBytes"`    // since ever
	WrittenSince    int64   `json:"writtenSince"`    // when ever began; 0: unknown
	Hits            int64   `json:"hits"`            // prefixes read back
	Misses          int64   `json:"misses"`          // searches that found nothing new
	SecondsSaved    float64 `json:"secondsSaved"`
	// conversations not written because the disk was slower
	Dropped    int64 `json:"dropped"`
	Skipped    int64 `json:"skipped"` // and because of a limit
	Damaged    int64 `json:"damaged"` // files that were wrong, and have been removed
	Foreign    int64 `json:"foreign"` // files of other versions, removed
	Evicted    int64 `json:"evicted"`
	SaveErrors int64 `json:"saveErrors"`
	// the last error of writing, or why the cache is off although it was asked for; "": none
	Error string `json:"error"`
	// HotBytes are keys and values in memory, of requests that have ended; 0 without a model.
	HotBytes int64 `json:"hotBytes"`
}

// Stats reads the figures.
func (c *Cache) Stats() Stats {
	s := c.store.Stats()
	return Stats{On: true, Dir: c.dir, Bytes: s.Bytes, MaxBytes: s.MaxBytes, Entries: s.Entries,
		DiskBytes: diskBytes(c.dir), FreeBytes: s.FreeBytes, MinFreeBytes: s.MinFreeBytes,
		TodayBytes: s.TodayBytes, DailyWriteBytes: s.DailyWriteBytes, WrittenBytes: s.WrittenBytes,
		WrittenSince: unixMs(s.WrittenSince), Hits: s.Hits, Misses: s.Misses,
		SecondsSaved: s.SecondsSaved, Dropped: s.Dropped, Skipped: s.Skipped, Damaged: s.Damaged,
		Foreign: s.Foreign, Evicted: s.Evicted,
		SaveErrors: s.SaveErrors, Error: s.LastSaveError}
}

// recentAge is how old figures get that are asked for several times a second.
const recentAge = 2 * time.Second

// Recent is Stats of the last seconds: it does not wait for the disk, but for the first answer.
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
