package library

// Which folders are watched, and for whom. A listing depends on real paths: its folder, the links
// that lead there, and where the links in it lead. Folders are watched by their real path, since
// two watches of one folder under two names are one to the kernel; an event then finds the listings
// that it makes stale.
//
// Watches are bounded. A folder that gets none (the limit is reached, the system refuses, it lies
// on a network) is polled.

import (
	"os"
	"path/filepath"
	"runtime"
)

// notifier is what is needed of fsnotify.
type notifier interface {
	Add(dir string) error
	Remove(dir string) error
	Close() error
}

// interest is what is watched.
type interest struct {
	notifier notifier // nil: there is none, everything is polled
	budget   int      // of watches, in units of what cost says
	cost     func(dir string) int

	dirs       map[string]*watched        // by real path
	dependents map[string]map[string]bool // by real path: paths of listings
}

// watched is a folder that somebody depends on.
type watched struct {
	cost  int
	err   error // why it is not watched, so that it has to be polled; nil: it is
	inUse bool  // during sweep
}

func newInterest(n notifier, budget int, cost func(string) int) *interest {
	return &interest{notifier: n, budget: budget, cost: cost, dirs: map[string]*watched{},
		dependents: map[string]map[string]bool{}}
}

// ordinaryBudget and ordinaryCost: inotify watches a folder as one; kqueue, on a Mac, opens each
// file in it. Linux allows a user 8192 watches on small machines, which other programs want too;
// macOS allows 10240 open files.
func ordinaryBudget() int { return 4096 }

func ordinaryCost(dir string) int {
	if runtime.GOOS == "linux" {
		return 1
	}
	d, err := os.Open(dir)
	if err != nil {
		return 1
	}
	defer d.Close()
	names, _ := d.Readdirnames(mostCost + 1)
	return 1 + len(names)
}

// mostCost is what one folder may take of the budget.
const mostCost = 512

// cover begins to watch the folder, a real path, and reports whether it was not watched before. It
// is called before the folder is read.
func (in *interest) cover(dir string) (fresh bool) {
	if in.dirs[dir] != nil {
		return false
	}
	w := &watched{}
	in.dirs[dir] = w
	switch w.cost = in.cost(dir); {
	case in.notifier == nil:
		w.err = errNoEvents
	case w.cost > min(in.budget, mostCost):
		w.err = errBudget
	case isRemote(dir):
		w.err = errRemote
	default:
		w.err = in.notifier.Add(dir)
	}
	if w.err != nil {
		w.cost = 0
		return false
	}
	in.budget -= w.cost
	return true
}

// pollReason is why a folder is polled.
type pollReason string

func (r pollReason) Error() string { return string(r) }

const (
	errNoEvents = pollReason("this system reports no changes of folders")
	errBudget   = pollReason("enough folders are watched already")
	errRemote   = pollReason("it lies on a network, which reports no changes")
)

// keep registers what a listing depends on.
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

// drop forgets what a listing depended on. Folders that nobody needs now are watched until the next
// sweep: the listing is likely to be read again.
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

// concerns tells whether an event at the real path can make a listing stale. In a home folder,
// which is watched for the sake of a folder that may be created in it, nearly none does.
func (in *interest) concerns(real string, structural bool) bool {
	if in.dependents[real] != nil || in.dependents[filepath.Dir(real)] != nil {
		return true
	}
	return structural && in.dirs[real] != nil
}

// stale returns the paths of the listings that the events make stale. events are real paths, with
// whether something has come, gone or been renamed there.
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

func (in *interest) touched(real string, paths map[string]bool) {
	for path := range in.dependents[real] {
		paths[path] = true
	}
}

// moved handles folders that are not what lay there before. The watches of all inside went with
// what has gone.
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
	any := false
	for dir := range in.dirs {
		if inside(dir) {
			any = true
			in.unwatch(dir)
		}
	}
	if !any {
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
		in.budget += w.cost
		_ = in.notifier.Remove(dir) // the system may have ended it already
	}
}

// sweep ends the watches that nothing depends on.
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

// reset ends all watches.
func (in *interest) reset() {
	for dir := range in.dirs {
		in.unwatch(dir)
	}
	clear(in.dependents)
}

// vouches tells whether changes of all that the listing depends on are reported.
func (in *interest) vouches(l *listing) bool {
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

// counts are the folders that are watched, those that are polled, and one reason for the latter.
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
