package cache

// Moving the cache to another folder, as a job: entries are linked or copied while the model runs,
// then the cache rests for a moment, what is left follows, the settings name the new folder, and
// the old one is emptied. What makes that safe is engine/blockstore's move.

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

// Mover moves a cache that may be in use. All fields but AlwaysCopy are required.
type Mover struct {
	// Now is the folder of the cache, "" if there is none, and the limits asked for.
	Now func() (dir string, limits engine.BlockStoreLimits)
	// Rest runs do while nobody has the cache open, and then opens it in the folder that do
	// returns.
	Rest func(ctx context.Context, do func() (dir string, err error)) error
	// Keep makes the folder the cache's, from now on and after a restart.
	Keep func(dir string) error
	// AlwaysCopy makes copies where links would do.
	AlwaysCopy bool
}

// MoveMemo is what a move needs to go on after a restart.
type MoveMemo struct {
	To string `json:"to"`
}

// subfolder is where the cache goes in a folder that has other things.
const subfolder = "headroom-blocks"

// Target is where the cache will lie when somebody chooses the folder: in it, or if it has other
// things in a folder of its own there.
func Target(dir string) string {
	dir = filepath.Clean(dir)
	names, err := os.ReadDir(dir)
	if err != nil || len(names) == 0 || Exists(dir) {
		return dir
	}
	return filepath.Join(dir, subfolder)
}

// Check tells whether the cache can go there, and what would have to be moved. The error is a
// Problem.
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
	_, limits := m.Now()
	if most := (&Cache{dir: to}).capOf(limits.MaxBytes); most > 0 && bytes > most {
		return 0, problem.New(problem.BadRequest, "The cache is larger than it may be on that disk",
			fmt.Sprintf(
				"%d bytes are kept, and a tenth of the disk, %d bytes, is the limit there unless "+
					"you set one", bytes, most),
			"Set a limit under Limits first, or choose a larger disk.")
	}
	return bytes, nil
}

// move is the store's part, as things are now. The error is a Problem.
func (m *Mover) move(to string) (*blockstore.Move, error) {
	from, limits := m.Now()
	if from == "" {
		return nil, problem.New(problem.BadRequest, "There is no cache to move",
			"the cache on disk is off", "Turn it on, and start Headroom again.")
	}
	if !filepath.IsAbs(to) {
		return nil, problem.New(problem.BadRequest, fmt.Sprintf("The cache cannot move to %q", to),
			"it is no absolute path", "Give the whole path of a folder, as /Volumes/Disk.")
	}
	if err := writable(to); err != nil {
		return nil, moveProblem(err, from, to)
	}
	return &blockstore.Move{From: from, To: to, MinFreeBytes: cmp.Or(limits.MinFreeBytes, 10e9),
		AlwaysCopy: m.AlwaysCopy}, nil
}

// writable tells whether the folder is one to write to, or can be made beside others.
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

// Job moves the cache to the folder, which Target has given.
func (m *Mover) Job(to string) jobs.Spec {
	memo, _ := json.Marshal(MoveMemo{to}) // a string always can be
	return jobs.Spec{Kind: jobs.Cache, Key: to, Title: to, Memo: memo,
		Work: func(ctx context.Context, p *jobs.Progress) (string, error) {
			return to,
				m.run(ctx, to, p)
		},
		Discard: func() error { return m.discard(to) },
	}
}

func (m *Mover) run(ctx context.Context, to string, p *jobs.Progress) error {
	if from, _ := m.Now(); from == to { // killed behind the change of the settings, or done already
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
	p.Total(bytes)
	p.Phase("moving", "")
	move.Found, move.Moved = p.Found, p.Add
	if err := move.Copy(ctx); err != nil {
		return moveProblem(err, move.From, to)
	}
	p.Phase("waiting until no answer is under way", "")
	move.Found, move.Moved = nil, nil
	err = m.Rest(ctx, func() (string, error) {
		p.Phase("moving what is left", "")
		if err := move.Settle(ctx); err != nil {
			return move.From, err
		}
		if err := m.Keep(to); err != nil {
			return move.From, err
		}
		p.Phase("opening the new folder", "")
		return to, nil
	})
	return moveProblem(err, move.From, to)
}

// discard takes away what an unfinished move has left. The folder that counts is no leftover.
func (m *Mover) discard(to string) error {
	if now, _ := m.Now(); now == to {
		return nil
	}
	return moveProblem(blockstore.DiscardMove(to), "", to)
}

// FinishMove does what is left of a move to the folder, before it is opened.
func FinishMove(dir string) error { return blockstore.FinishMove(dir) }

// moveProblem words what can go wrong. Whatever it is, the old folder is whole.
func moveProblem(err error, from, to string) error {
	known, room := (*problem.Problem)(nil), (*blockstore.NoRoom)(nil)
	cannot := "The cache cannot move to " + to
	switch {
	case err == nil || errors.Is(err, context.Canceled) || errors.As(err, &known):
		return err
	case errors.As(err, &room):
		return problem.New(problem.BadRequest, "The disk has too little room for the cache",
			fmt.Sprintf(
				"%s has %d bytes beyond what is left free for everything else, and %d are needed",
				to, room.Free, room.Need),
			"Free some space there, make the cache smaller under Limits, or choose another disk.")
	case disk.IsFull(err):
		return problem.Wrap(problem.BadRequest, err, "The disk became full",
			"Free some space there, and go on. The cache is still in "+from+".")
	case errors.Is(err, blockstore.ErrNested):
		return problem.New(problem.BadRequest, cannot,
			"it is, or lies in, or has in it, the folder of now: "+from, "Choose another folder.")
	case errors.Is(err, blockstore.ErrOccupied):
		return problem.New(problem.BadRequest, cannot, "another cache is there",
			"Choose an empty folder. To use the cache that is there, type its path as Folder.")
	case errors.Is(err, blockstore.ErrInUse):
		return problem.New(problem.BadRequest, "Another program has the cache open",
			"it is in "+from, "End the other Headroom, and go on.")
	}
	return problem.Wrap(problem.BadRequest, err, cannot,
		"Choose a folder that can be written to. The cache is still where it was.")
}
