package convert

// The folder of the result while it is written: what may be there, what is left of an earlier run,
// and whether the rest fits. A file that records the plan and the finished files is there until the
// end. config.json comes last, so an unfinished folder is no model.

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"

	"headroom/app/disk"
	"headroom/engine/gguf"
	"headroom/engine/problem"
)

const (
	stateFile = ".headroom-convert.json"
	lockFile  = ".headroom-convert.lock"
	partial   = ".part" // of a file that is being written

	// version changes with the bits of results.
	version = 1

	// spareBytes stay free on the disk.
	spareBytes = 64 << 20
)

var errDamaged = errors.New("a file of an earlier run has changed")

// state is what stateFile has.
type state struct {
	Plan   string              `json:"plan"`
	Shards map[string][]uint32 `json:"shards"` // of finished files: a checksum of each piece
	// Lost is what the finished files have lost of a GGUF file, by its types.
	Lost map[gguf.Type]loss `json:"lost,omitempty"`
	// Calibrated has the checksums of the matrices that are packed, and Bits what they have.
	Calibrated map[string]uint32 `json:"calibrated,omitempty"`
	Bits       map[string]int    `json:"bits,omitempty"`
	Files      []string          `json:"files"` // that the conversion creates, finished or not

	written atomic.Int64
	total   int64
}

// Unfinished reports whether a folder has a conversion that was stopped.
func Unfinished(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, stateFile))
	return err == nil
}

// fingerprint returns a digest of the source and of the plan.
func (c *conversion) fingerprint() string {
	h := sha256.New()
	fmt.Fprintf(h, "%d %x\n", version, c.adapter)
	if c.sample != nil {
		fmt.Fprintf(h, "%x %d %v\n", c.sample.digest, c.sample.tokens, c.o.TargetBPW)
	}
	for _, t := range c.tensors {
		fmt.Fprintf(h, "%s %v %v %v %v %v\n", t.name, t.shape, t.pick, t.transposed, t.add, t.kept)
	}
	for _, s := range c.shards {
		h.Write(s.header)
	}
	config, _ := c.readFile("config.json")
	h.Write(config)
	for _, path := range c.paths() {
		if info, err := os.Stat(path); err == nil {
			fmt.Fprintf(h, "%s %d %d\n", filepath.Base(path), info.Size(),
				info.ModTime().UnixNano())
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// paths returns the files of weights of the source.
func (c *conversion) paths() (paths []string) {
	if c.model != nil {
		return c.model.File.Paths()
	}
	for _, f := range c.weights.Files() {
		paths = append(paths, f.Path())
	}
	return paths
}

// begin makes the folder, or finds what an earlier run has left there.
func (c *conversion) begin(dest string) error {
	c.dest = filepath.Clean(dest)
	if same(c.dest, c.source.Dir) {
		return problem.New(problem.BadRequest, "The result cannot replace its own source",
			"both are "+c.dest, "Choose another folder.")
	}
	plan := c.fingerprint()
	old, found := readState(c.dest)
	err := c.checkFolder(old, found, plan)
	if err != nil {
		return err
	}
	c.state.Plan, c.state.Shards, c.state.total = plan, map[string][]uint32{}, c.bytes
	if found && old.Plan == plan {
		c.state.Shards, c.lost.byType = old.Shards, old.Lost
		c.state.Calibrated, c.state.Bits = old.Calibrated, old.Bits
	}
	if c.state.Files, err = c.created(); err != nil {
		return wrap(err, "The files beside the weights cannot be read")
	}
	if err := c.checkSpace(); err != nil {
		return err
	}
	if err := os.MkdirAll(c.dest, 0o755); err != nil {
		return wrap(err, "The folder cannot be made")
	}
	lock, err := lockFolder(c.dest)
	if err != nil {
		return err
	}
	c.lock = lock
	return wrap(c.saveState(), "The folder cannot be written")
}

// lockFolder locks a folder, so that one conversion writes to it. The error is a Problem.
//
// Another process may have opened the lock's file before its owner removed it: what it locks then
// is no file of the folder. So a lock counts only if the file is still there.
func lockFolder(dest string) (interface{ Unlock() error }, error) {
	path := filepath.Join(dest, lockFile)
	for {
		lock, err := disk.TryLock(path, 0o644)
		if errors.Is(err, disk.ErrLocked) {
			return nil, problem.New(problem.Busy, "This model is being converted already",
				"another program writes to "+dest, "Wait until it is done.")
		}
		if err != nil {
			return nil, wrap(err, "The folder cannot be written")
		}
		held, err := lock.Stat()
		if now, nowErr := os.Lstat(path); err == nil && nowErr == nil && os.SameFile(held, now) {
			return lock, nil
		}
		_ = lock.Unlock()
	}
}

// unlock ends the use of the folder. The file goes while it is locked, so that it is never that of
// another conversion.
func (c *conversion) unlock() {
	_ = os.Remove(filepath.Join(c.dest, lockFile))
	_ = c.lock.Unlock()
}

// same reports whether two paths are the same folder.
func same(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

func readState(dir string) (*state, bool) {
	data, err := os.ReadFile(filepath.Join(dir, stateFile))
	s := new(state)
	return s, err == nil && json.Unmarshal(data, s) == nil && s.Plan != ""
}

// checkFolder refuses a folder that has something else than an earlier run of the same plan.
// Nothing is ever replaced.
func (c *conversion) checkFolder(old *state, found bool, plan string) error {
	entries, err := os.ReadDir(c.dest)
	switch {
	case errors.Is(err, os.ErrNotExist), err == nil && len(entries) == 0:
		return nil
	case err != nil:
		return wrap(err, "The folder cannot be read")
	case found && old.Plan == plan:
		return nil
	case found:
		return problem.New(problem.Exists, "The folder has another unfinished conversion",
			c.dest+" was begun with another source or other options",
			"Use the same ones to go on, or choose another folder.")
	}
	if slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() == "config.json" }) {
		return problem.New(problem.Exists, "The folder has a model already", c.dest+" is complete"+
			", and nothing is replaced", "Choose another folder, or move that one.")
	}
	return problem.New(problem.Exists, "The folder is not empty",
		fmt.Sprintf("%s has %s", c.dest, entries[0].Name()),
		"Choose another folder, or move that one.")
}

// checkSpace refuses a result that does not fit on the disk.
func (c *conversion) checkSpace() error {
	need := int64(spareBytes)
	for _, s := range c.shards {
		if c.state.Shards[s.name] == nil || !exists(c.dest, s.name) {
			need += s.size
		}
	}
	folder := c.dest
	for !exists(folder) && filepath.Dir(folder) != folder {
		folder = filepath.Dir(folder)
	}
	free, err := c.o.free(folder)
	if err != nil {
		return wrap(err, "The free space cannot be found out")
	}
	if need > free {
		return problem.New(problem.DiskFull, "The result does not fit on the disk",
			fmt.Sprintf("it needs %s, and %s are free", problem.Memory(need),
				problem.Memory(free)),
			"Free some space, choose fewer bits, or choose a folder on another disk.")
	}
	return nil
}

func (c *conversion) saveState() error {
	c.state.Lost = c.lost.snapshot()
	data, err := json.Marshal(&c.state)
	if err != nil {
		return err
	}
	return disk.WriteFile(filepath.Join(c.dest, stateFile), data, 0o644)
}

// write writes all files that are not complete.
func (c *conversion) write(ctx context.Context) error {
	for _, s := range c.shards {
		damaged := false
		if sums := c.state.Shards[s.name]; sums != nil {
			if c.isComplete(ctx, s, sums) {
				c.keptShards++
				c.progress(s.size - int64(len(s.header)))
				continue
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			c.o.Warn(s.name + " of the earlier run is damaged and is written again.")
			damaged = true
		}
		sums, err := c.writeShard(ctx, s, damaged)
		if err != nil {
			return wrap(err, s.name+" cannot be written")
		}
		c.state.Shards[s.name] = sums
		if err := c.saveState(); err != nil {
			return wrap(err, "The folder cannot be written")
		}
		if c.o.wrote != nil {
			if err := c.o.wrote(s.name); err != nil {
				return err
			}
		}
	}
	return nil
}

// progress adds bytes to what is written.
func (c *conversion) progress(bytes int64) {
	done := c.state.written.Add(bytes)
	if c.o.Progress != nil {
		c.o.Progress(done, c.state.total)
	}
}
