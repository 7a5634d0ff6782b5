package library

// The watched folders, and the listings that depend on them. A listing depends on real paths: its
// folder, the links on its path, and the targets of links in it. Watches are keyed by real path,
// because the kernel has one watch per folder, however it is reached. The method stale returns the
// listings that must be read again after an event.
//
// A renamed folder keeps its watch under the old path, and if only a parent without a watch was
// renamed, no event says so. Then another folder at the old path would seem to be watched. And the
// folder at its new path would share the watch, because inotify watches inodes, and lose it with
// the old path. Therefore cover compares inodes and moves such watches.
//
// The number of watches is limited. A folder without a watch (over the limit, refused by the
// system, on a network, or mounted at two paths) is polled.

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"
)

// notifier is the part of fsnotify.Watcher that interest uses.
type notifier interface {
	Add(dir string) error
	Remove(dir string) error
	Close() error
}

// interest sets and removes watches.
type interest struct {
	notifier notifier // nil: everything is polled
	budget   int      // remaining sum of the costs of watches
	cost     func(dir string) int

	dirs       map[string]*watched        // by real path
	byInode    map[inode]string           // real paths of the folders with a watch
	away       map[string]bool            // real paths that cover found moved; see takeAway
	dependents map[string]map[string]bool // by real path: paths of listings
}

// watched is a folder that a listing depends on.
type watched struct {
	cost  int
	err   error // why it is polled instead of watched; nil: it is watched
	inode inode
	inUse bool // set during sweep
}

func newInterest(n notifier, budget int, cost func(string) int) *interest {
	return &interest{notifier: n, budget: budget, cost: cost, dirs: map[string]*watched{},
		byInode: map[inode]string{}, away: map[string]bool{},
		dependents: map[string]map[string]bool{}}
}

// defaultBudget bounds the sum of the watches' costs; see defaultCost. inotify has one watch per
// folder; kqueue, on a Mac, also opens each file in it. Linux allows a user 8192 watches on small
// machines, shared by all programs; macOS allows 10240 open files.
func defaultBudget() int { return 4096 }

// defaultCost returns what a watch of dir takes from the budget: 1 on Linux, elsewhere 1 and the
// number of entries.
func defaultCost(dir string) int {
	if runtime.GOOS == "linux" {
		return 1
	}
	d, err := os.Open(dir)
	if err != nil {
		return 1
	}
	defer d.Close()
	names, _ := d.Readdirnames(maxCost + 1)
	return 1 + len(names)
}

// maxCost is the highest cost of a watched folder. A folder that costs more is polled.
const maxCost = 512

// cover watches the folder at a real path, and reports whether it added a watch. Callers call it
// before they read the folder, so that they miss no change.
func (in *interest) cover(dir string) (fresh bool) {
	if old := in.dirs[dir]; old != nil {
		if old.err != nil || old.inode == inodeOf(dir) {
			return false
		}
		in.leave(dir)
	}
	w := &watched{}
	in.dirs[dir] = w
	switch w.cost = in.cost(dir); {
	case in.notifier == nil:
		w.err = errNoEvents
	case w.cost > min(in.budget, maxCost):
		w.err = errBudget
	case isRemote(dir):
		w.err = errRemote
	default:
		w.inode = inodeOf(dir)
		if w.err = in.release(w.inode); w.err == nil {
			w.err = in.notifier.Add(dir)
		}
	}
	if w.err != nil {
		w.cost = 0
		return false
	}
	if w.inode != (inode{}) {
		in.byInode[w.inode] = dir
	}
	in.budget -= w.cost
	return true
}

// inode identifies a folder. The zero value means that it is not known.
type inode struct{ device, number uint64 }

// inodeOf returns the inode at a real path.
func inodeOf(path string) inode {
	var s syscall.Stat_t
	if err := syscall.Lstat(path, &s); err != nil {
		return inode{}
	}
	return inode{uint64(s.Dev), s.Ino}
}

// release removes the watch that the folder has under a path from which it has been moved away. It
// returns an error if the path still leads to the folder.
func (in *interest) release(i inode) error {
	old, ok := in.byInode[i]
	if !ok {
		return nil
	}
	if inodeOf(old) == i {
		return errTwoPaths
	}
	in.leave(old)
	return nil
}

// leave removes the watch of a folder that was moved away from its path without an event.
func (in *interest) leave(path string) {
	in.unwatch(path)
	in.away[path] = true
}

// takeAway returns the paths from which folders were moved away without an event, as the argument
// of stale, and forgets them.
func (in *interest) takeAway() map[string]bool {
	away := in.away
	in.away = map[string]bool{}
	return away
}

// pollReason is the reason why a folder is polled.
type pollReason string

func (r pollReason) Error() string { return string(r) }

const (
	errNoEvents = pollReason("this system does not report changes to folders")
	errBudget   = pollReason("the limit on watched folders is reached")
	errTwoPaths = pollReason("it is mounted at two paths, of which one is watched")
	errRemote   = pollReason("it is on a network volume, which does not report changes")
)

// keep registers the paths that a listing depends on.
func (in *interest) keep(l *listing) {
	if l.real != "" {
		in.depend(l.real, l.path)
	}
	for _, real := range l.depends {
		in.depend(real, l.path)
	}
}

func (in *interest) depend(real, path string) {
	if in.dependents[real] == nil {
		in.dependents[real] = map[string]bool{}
	}
	in.dependents[real][path] = true
}

// drop removes the dependencies of a listing. Its watches stay until the next sweep, because the
// listing is likely to be read again.
func (in *interest) drop(l *listing) {
	forget := func(real string) {
		delete(in.dependents[real], l.path)
		if len(in.dependents[real]) == 0 {
			delete(in.dependents, real)
		}
	}
	if l.real != "" {
		forget(l.real)
	}
	for _, real := range l.depends {
		forget(real)
	}
}

// concerns reports whether an event at a real path can make a listing stale. In a home folder,
// which is watched because a root may be created in it, most events cannot.
func (in *interest) concerns(real string, structural bool) bool {
	if in.dependents[real] != nil || in.dependents[filepath.Dir(real)] != nil {
		return true
	}
	return structural && in.dirs[real] != nil
}

// stale returns the paths of the listings that the events make stale. events maps real paths to
// whether something was created, removed or renamed there.
func (in *interest) stale(events map[string]bool) map[string]bool {
	paths := map[string]bool{}
	moved := false
	for real, structural := range events {
		in.touched(real, paths)
		in.touched(filepath.Dir(real), paths)
		moved = moved || structural
	}
	if moved {
		in.moved(events, paths)
	}
	return paths
}

// touched adds the paths of the listings that depend on real to paths.
func (in *interest) touched(real string, paths map[string]bool) {
	for path := range in.dependents[real] {
		paths[path] = true
	}
}

// moved handles folders that were replaced or removed: the watches inside them are gone too.
func (in *interest) moved(events map[string]bool, paths map[string]bool) {
	inside := func(path string) bool {
		for ; ; path = filepath.Dir(path) {
			if events[path] {
				return true
			}
			if path == filepath.Dir(path) {
				return false
			}
		}
	}
	found := false
	for dir := range in.dirs {
		if inside(dir) {
			found = true
			in.unwatch(dir)
		}
	}
	if !found {
		return
	}
	for real := range in.dependents {
		if inside(real) {
			in.touched(real, paths)
		}
	}
}

func (in *interest) unwatch(dir string) {
	w := in.dirs[dir]
	delete(in.dirs, dir)
	if w != nil && w.err == nil {
		if in.byInode[w.inode] == dir {
			delete(in.byInode, w.inode)
		}
		in.budget += w.cost
		_ = in.notifier.Remove(dir) // the system may have removed it already
	}
}

// sweep removes the watches that no listing depends on.
func (in *interest) sweep() {
	for real := range in.dependents {
		if w := in.dirs[real]; w != nil {
			w.inUse = true
		}
		if w := in.dirs[filepath.Dir(real)]; w != nil {
			w.inUse = true
		}
	}
	for dir, w := range in.dirs {
		if !w.inUse {
			in.unwatch(dir)
		}
		w.inUse = false
	}
}

// reset removes all watches.
func (in *interest) reset() {
	for dir := range in.dirs {
		in.unwatch(dir)
	}
	clear(in.dependents)
	clear(in.away)
}

// isCovered reports whether every path that the listing depends on is watched.
func (in *interest) isCovered(l *listing) bool {
	covered := func(dir string) bool { w := in.dirs[dir]; return w != nil && w.err == nil }
	if l.real != "" && !covered(l.real) {
		return false
	}
	for _, real := range l.depends {
		if !covered(filepath.Dir(real)) {
			return false
		}
	}
	return true
}

// counts returns the number of watched and of polled folders, and one reason for polling.
func (in *interest) counts() (watching, polling int, reason error) {
	for _, w := range in.dirs {
		if w.err == nil {
			watching++
		} else {
			polling++
			reason = w.err
		}
	}
	return watching, polling, reason
}
