package cache

// Moving the cache to another folder, as a job. Entries are linked or copied while the model runs.
// Then the cache is closed for a moment. The remaining changes are moved, the new folder is saved
// in the settings, and the old one is emptied. blockstore.Move makes this safe against crashes.

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"headroom/app/disk"
	"headroom/app/jobs"
	"headroom/engine"
	"headroom/engine/blockstore"
	"headroom/engine/problem"
)

// Mover moves a cache that may be in use. All fields but the last two are required.
type Mover struct {
	// Current returns the cache's folder, "" if the cache is off, and the configured limits.
	Current func() (dir string, limits engine.BlockStoreLimits)
	// WithClosed closes the cache, calls do, and opens the cache in the folder that do returns.
	WithClosed func(ctx context.Context, do func() (dir string, err error)) error
	// Save stores dir as the cache's folder, so that it is used after a restart, too.
	Save func(dir string) error
	// AlwaysCopy copies entries even if hard links are possible.
	AlwaysCopy bool
	Folders    *Folders // nil: none
}

// MoveMemo is the Memo of a move's job; see jobs.Spec.
type MoveMemo struct {
	To string `json:"to"`
}

// subfolder is the name of the cache's folder if the chosen folder is not empty.
const subfolder = "headroom-blocks"

// Target returns the folder that the cache moves to if the user chooses dir: dir if it is missing,
// empty or has a cache, otherwise a subfolder.
func Target(dir string) string {
	dir = filepath.Clean(dir)
	names, err := os.ReadDir(dir)
	if err != nil || len(names) == 0 || Exists(dir) {
		return dir
	}
	return filepath.Join(dir, subfolder)
}

// Check checks that the cache can move to the folder, and returns how many bytes it would move. The
// error is a Problem.
func (m *Mover) Check(to string) (bytes int64, err error) {
	move, err := m.move(to)
	if err != nil {
		return 0, err
	}
	if err := move.Check(); err != nil {
		return 0, moveProblem(err, move.From, to)
	}
	if bytes, err = move.Bytes(); err != nil {
		return 0, moveProblem(err, move.From, to)
	}
	_, limits := m.Current()
	limit := (&Cache{dir: to}).capOf(limits.MaxBytes)
	if limit > 0 && bytes > limit {
		return 0, problem.New(problem.BadRequest, "The cache exceeds the limit on that disk",
			fmt.Sprintf("it has %d bytes, and the limit there, a tenth of the disk, is %d bytes "+
				"unless you set one", bytes, limit),
			"Set a limit under Limits first, or choose a larger disk.")
	}
	return bytes, nil
}

// move returns the store's move to the folder. The error is a Problem.
func (m *Mover) move(to string) (*blockstore.Move, error) {
	from, limits := m.Current()
	if from == "" {
		return nil, problem.New(problem.BadRequest, "There is no cache to move",
			"the cache on disk is off", "Turn it on, then restart Headroom.")
	}
	if !filepath.IsAbs(to) {
		return nil, problem.New(problem.BadRequest, fmt.Sprintf("The cache cannot move to %q", to),
			"it is not an absolute path", "Enter the full path of a folder, such as /Volumes/Disk.")
	}
	if err := writable(to); err != nil {
		return nil, moveProblem(err, from, to)
	}
	return &blockstore.Move{From: from, To: to, MinFreeBytes: cmp.Or(limits.MinFreeBytes, 10e9),
		AlwaysCopy: m.AlwaysCopy}, nil
}

// writable returns an error unless dir, or a folder up to two levels above it, can be written to.
func writable(dir string) error {
	for _, path := range []string{dir, filepath.Dir(dir), filepath.Dir(filepath.Dir(dir))} {
		info, err := os.Stat(path)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err == nil && !info.IsDir() {
			err = &os.PathError{Op: "mkdir", Path: path, Err: unix.ENOTDIR}
		}
		if err == nil {
			if denied := unix.Access(path, unix.W_OK); denied != nil {
				err = &os.PathError{Op: "write", Path: path, Err: denied}
			}
		}
		return err
	}
	return &os.PathError{Op: "stat", Path: dir, Err: os.ErrNotExist}
}

// Job returns the job that moves the cache to a folder that Target returned.
func (m *Mover) Job(to string) jobs.Spec {
	memo, _ := json.Marshal(MoveMemo{to}) // strings always encode
	return jobs.Spec{Kind: jobs.Cache, Key: to, Title: to, Memo: memo,
		Work: func(ctx context.Context, p *jobs.Progress) (string, error) {
			return to, m.run(ctx, to, p)
		},
		Discard: func() error { return m.discard(to) },
	}
}

func (m *Mover) run(ctx context.Context, to string, p *jobs.Progress) error {
	if from, _ := m.Current(); from == to { // already moved, perhaps before a crash
		return nil
	}
	bytes, err := m.Check(to)
	if err != nil {
		return err
	}
	move, err := m.move(to)
	if err != nil {
		return err
	}
	m.Folders.Remember(to)
	p.Total(bytes)
	p.Phase("moving", "")
	move.Found, move.Moved = p.Found, p.Add
	if err := move.Copy(ctx); err != nil {
		return moveProblem(err, move.From, to)
	}
	p.Phase("waiting for running requests", "")
	move.Found, move.Moved = nil, nil
	err = m.WithClosed(ctx, func() (string, error) {
		p.Phase("moving the rest", "")
		if err := move.Settle(ctx); err != nil {
			return move.From, err
		}
		if err := m.Save(to); err != nil {
			return move.From, err
		}
		p.Phase("opening the new folder", "")
		return to, nil
	})
	return moveProblem(err, move.From, to)
}

// discard removes the files of an unfinished move, unless the settings already name its folder.
func (m *Mover) discard(to string) error {
	if now, _ := m.Current(); now == to {
		return nil
	}
	return moveProblem(blockstore.DiscardMove(to), "", to)
}

// FinishMove completes an interrupted move to the folder. It must be called before Open.
func FinishMove(dir string) error { return blockstore.FinishMove(dir) }

// moveProblem turns the errors of a move into Problems. After any of them the old folder is
// complete.
func moveProblem(err error, from, to string) error {
	known, room := (*problem.Problem)(nil), (*blockstore.NoRoom)(nil)
	cannot := "The cache cannot move to " + to
	switch {
	case err == nil || errors.Is(err, context.Canceled) || errors.As(err, &known):
		return err
	case errors.As(err, &room):
		return problem.New(problem.BadRequest, "There is not enough space for the cache",
			fmt.Sprintf("%d bytes are needed, and %s has %d bytes above its reserve", room.Need, to,
				room.Free),
			"Free some space there, make the cache smaller under Limits, or choose another disk.")
	case disk.IsFull(err):
		return problem.Wrap(problem.BadRequest, err, "The disk is full",
			"Free some space there, then resume. The cache is still in "+from+".")
	case errors.Is(err, blockstore.ErrNested):
		return problem.New(problem.BadRequest, cannot,
			"it is the current folder, or inside it, or contains it: "+from,
			"Choose another folder.")
	case errors.Is(err, blockstore.ErrOccupied):
		return problem.New(problem.BadRequest, cannot, "the folder has another cache",
			"Choose an empty folder. To use the cache in it, enter its path as Folder.")
	case errors.Is(err, blockstore.ErrNotEmpty):
		return problem.Wrap(problem.BadRequest, err, cannot, "Choose an empty folder.")
	case errors.Is(err, blockstore.ErrInUse):
		return problem.New(problem.BadRequest, "Another program has the cache open",
			"it is in "+from, "Quit the other Headroom, then resume.")
	}
	return problem.Wrap(problem.BadRequest, err, cannot,
		"Choose a folder that can be written to. The cache is still where it was.")
}
