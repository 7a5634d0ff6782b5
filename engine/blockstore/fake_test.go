package blockstore

// A clock and a disk for tests.

import (
	"context"
	"os"
	"sync"
	"time"
)

// fakeClock is a clock that moves only when a test sets it.
type fakeClock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *fakeClock {
	return &fakeClock{now: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)}
}

func (c *fakeClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *fakeClock) set(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = now
}

func (c *fakeClock) add(days int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.AddDate(0, 0, days)
}

// fakeDisk fails at chosen operations and reports a chosen amount of free space.
type fakeDisk struct {
	osDisk
	mu sync.Mutex
	// by operation: create, write, sync, rename, open, read
	fail   map[string]error
	free   int64  // 0: unlimited
	onSync func() // called at the next Sync, once, before the file is renamed
}

func (d *fakeDisk) set(op string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fail == nil {
		d.fail = map[string]error{}
	}
	d.fail[op] = err
}

func (d *fakeDisk) failing(op string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.fail[op]
}

type fakeFile struct {
	*os.File
	d *fakeDisk
}

func (f fakeFile) Write(p []byte) (int, error) {
	if err := f.d.failing("write"); err != nil {
		n, _ := f.File.Write(p[:len(p)/2]) // like a disk that fills up
		return n, err
	}
	return f.File.Write(p)
}

func (f fakeFile) Sync() error {
	f.d.mu.Lock()
	hook := f.d.onSync
	f.d.onSync = nil
	f.d.mu.Unlock()
	if hook != nil {
		hook()
	}
	return f.d.failing("sync")
}

func (f fakeFile) Read(p []byte) (int, error) {
	if err := f.d.failing("read"); err != nil {
		return 0, err
	}
	return f.File.Read(p)
}

func (d *fakeDisk) Create(path string) (writeFile, error) {
	if err := d.failing("create"); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	return fakeFile{f, d}, err
}

func (d *fakeDisk) Open(path string) (readFile, error) {
	if err := d.failing("open"); err != nil {
		return nil, err
	}
	f, err := d.osDisk.Open(path)
	if err != nil {
		return nil, err
	}
	return fakeFile{f.(*os.File), d}, nil
}

func (d *fakeDisk) Rename(from, to string) error {
	if err := d.failing("rename"); err != nil {
		return err
	}
	return d.osDisk.Rename(from, to)
}

func (d *fakeDisk) FreeBytes(path string) (int64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.free == 0 {
		return 1 << 50, nil
	}
	return d.free, nil
}

// readAndCount reads the entries of a Prefix and counts them as used.
func readAndCount(ctx context.Context, v *View, p Prefix, kv func(b Block) []Tensor,
	state func() []Tensor) error {
	err := v.Read(ctx, p, kv, state)
	if err == nil {
		v.Used(p)
	}
	return err
}
