package main

// The faults. Each is done to a server under load, and ends before its function returns. After it,
// the server must answer again by itself.

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// fault is one row of the table. do does it and undoes it; hold is a time that fits the cycle.
type fault struct {
	name string
	do   func(ctx context.Context, b *bench, hold time.Duration) error
}

var faults = []fault{
	{"worker killed", func(ctx context.Context, b *bench, _ time.Duration) error {
		return b.signalWorker(ctx, syscall.SIGKILL)
	}},
	{"worker ended by SIGBUS", func(ctx context.Context, b *bench, _ time.Duration) error {
		return b.signalWorker(ctx, syscall.SIGBUS) // SIGSEGV would blame the running prompts
	}},
	{"worker stopped for a while", func(ctx context.Context, b *bench, hold time.Duration) error {
		return b.suspend(ctx, hold, false)
	}},
	{"all processes suspended and resumed",
		func(ctx context.Context, b *bench, hold time.Duration) error {
			return b.suspend(ctx, hold, true)
		}},
	{"server killed and started", func(ctx context.Context, b *bench, _ time.Duration) error {
		return b.restart(ctx, true)
	}},
	{"server ended and started", func(ctx context.Context, b *bench, _ time.Duration) error {
		return b.restart(ctx, false)
	}},
	{"model switched", func(ctx context.Context, b *bench, _ time.Duration) error {
		return b.switchModel(ctx)
	}},
	{"model unloaded and loaded", func(ctx context.Context, b *bench, _ time.Duration) error {
		err := b.server.control(ctx, "POST", "/control/engine/stop", nil, nil)
		return errors.Join(err, b.server.control(ctx, "POST", "/control/engine/start",
			map[string]any{"model": b.loaded}, nil))
	}},
	{"cache cleared", func(ctx context.Context, b *bench, _ time.Duration) error {
		return b.server.control(ctx, "DELETE", "/control/cache", nil, nil)
	}},
	{"cache limit lowered and raised",
		func(ctx context.Context, b *bench, hold time.Duration) error {
			err := b.limit(ctx, 1_000_000)
			pause(ctx, hold)
			return errors.Join(err, b.limit(ctx, cacheBytes))
		}},
	{"cache files damaged", func(_ context.Context, b *bench, _ time.Duration) error {
		return b.damage()
	}},
	{"disk full and free again", func(ctx context.Context, b *bench, hold time.Duration) error {
		return b.fillDisk(ctx, hold)
	}},
	{"burst of 24 requests", func(ctx context.Context, b *bench, _ time.Duration) error {
		return b.burst(ctx)
	}},
}

// errSkipped means that a fault is not possible on this system.
var errSkipped = errors.New("not possible on this system")

func (b *bench) signalWorker(ctx context.Context, s syscall.Signal) error {
	pid, err := b.server.worker(ctx)
	if err != nil {
		return err
	}
	return syscall.Kill(pid, s)
}

// suspend stops the worker, or with all also the server, and lets them go on after a time.
func (b *bench) suspend(ctx context.Context, hold time.Duration, all bool) error {
	pid, err := b.server.worker(ctx)
	if err != nil {
		return err
	}
	processes := []int{pid}
	if all {
		processes = append(processes, b.server.pid())
	}
	for _, p := range processes {
		err = errors.Join(err, syscall.Kill(p, syscall.SIGSTOP))
	}
	pause(ctx, hold)
	for _, p := range slices.Backward(processes) {
		if e := syscall.Kill(p, syscall.SIGCONT); !errors.Is(e, syscall.ESRCH) {
			err = errors.Join(err, e)
		}
	}
	return err
}

func (b *bench) restart(ctx context.Context, kill bool) error {
	err := b.server.stop(kill)
	if err == nil {
		err = b.server.start(ctx)
	}
	b.samples = append(b.samples, sample{restart: true})
	return err
}

// switchModel loads the other copy of the model, and unloads the one that was loaded, since memory
// has room for both. Its weights are equal, so its answers are.
func (b *bench) switchModel(ctx context.Context) error {
	other := copyName
	if b.loaded == copyName {
		other = demoName
	}
	err := b.server.control(ctx, "POST", "/control/engine/start", map[string]any{"model": other},
		nil)
	if err != nil {
		return err
	}
	before := b.loaded
	b.loaded = other
	return b.server.control(ctx, "POST", "/control/engine/stop", map[string]any{"model": before},
		nil)
}

func (b *bench) limit(ctx context.Context, bytes int64) error {
	return b.server.control(ctx, "PUT", "/control/settings/cache",
		map[string]any{"maxBytes": bytes}, nil)
}

// damage flips a byte in each of some files of the cache, and cuts one in half.
func (b *bench) damage() error {
	files, err := cacheFiles(b.cacheDir())
	if err != nil || len(files) == 0 {
		return err
	}
	for range 8 {
		path := files[b.random.IntN(len(files))]
		if err := flip(path, b.random); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	path := files[b.random.IntN(len(files))]
	if info, err := os.Stat(path); err == nil {
		return os.Truncate(path, info.Size()/2)
	}
	return nil
}

func flip(path string, r *rand.Rand) error {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || info.Size() == 0 {
		return err
	}
	at, one := r.Int64N(info.Size()), make([]byte, 1)
	if _, err := file.ReadAt(one, at); err != nil {
		return err
	}
	one[0] ^= 1 << r.IntN(8)
	_, err = file.WriteAt(one, at)
	return err
}

// cacheFiles returns the entries in the cache folder, which are safetensors files.
func cacheFiles(dir string) ([]string, error) {
	var files []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case d.Type().IsRegular() && strings.HasSuffix(path, ".safetensors"):
			files = append(files, path)
		}
		return nil
	})
	return files, err
}

// fillDisk fills the disk of the cache, which has one of its own, and frees it again.
func (b *bench) fillDisk(ctx context.Context, hold time.Duration) error {
	if !b.ownDisk {
		return errSkipped
	}
	path := filepath.Join(b.disk, "filler")
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	block := make([]byte, 1<<20)
	for err == nil {
		_, err = file.Write(block)
	}
	if errors.Is(err, syscall.ENOSPC) {
		err = nil
	}
	pause(ctx, hold)
	return errors.Join(err, file.Close(), os.Remove(path))
}

// burst asks 24 requests at once. Those that the queue cannot take are refused.
func (b *bench) burst(ctx context.Context) error {
	done := make(chan struct{})
	const n = 24
	for range n {
		t := b.load.talks[b.random.IntN(len(b.load.talks))]
		i := b.random.IntN(len(t.turns))
		go func() {
			b.load.check(ctx, fmt.Sprintf("%s, turn %d, in a burst", t.name, i), t.turns[i])
			done <- struct{}{}
		}()
	}
	for range n {
		<-done
	}
	return nil
}
