package library

// The list, kept as a fresh scan would make it. One goroutine owns everything: it gathers events
// until they pause, forgets the listings that they touch, and runs the scan over those that are
// left, so what follows from a change is decided by the one scan there is.
//
// Events are not the whole truth. A volume that is mounted over a folder reports none, folders
// beyond the bound have no watch, and the system drops what nobody fetches in time. So folders are
// looked at in a slow rhythm too (check), those without a watch are read again each time, and now
// and then everything is. That rhythm slows down with the work that it makes.

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
)

// WatchOptions configure a Watcher. The zero value is right for most.
type WatchOptions struct {
	Paused bool          // begin without watching: the list changes with Rescan alone
	Quiet  time.Duration // without events before the list is renewed; 0: 100 ms
	Latest time.Duration // that a change waits for such a pause; 0: 500 ms
	Poll   time.Duration // between looks at folders; 0: 5 s, and more where a look takes long
	Safety time.Duration // between scans of everything; 0: 30 min
	Log    *slog.Logger  // nil: slog.Default()

	events  func() (events, error) // nil: fsnotify's
	budget  int                    // 0: ordinaryBudget
	renewed func()                 // called after each renewal; may be nil
}

// events is where changes of folders come from.
type events struct {
	notifier
	events <-chan fsnotify.Event
	errors <-chan error
}

// Watcher keeps a Library's list. Its methods may be called from any goroutine, except Close and
// Rescan from a subscriber's.
type Watcher struct {
	library *Library
	options WatchOptions
	log     *slog.Logger

	// Of the goroutine alone.
	scanner  *scanner
	interest *interest
	pending  map[string]bool // real paths with events; true: something came, went or was renamed
	lost     bool            // events were dropped: nothing that is remembered counts
	since    time.Time       // of the first pending event

	calls  chan func()
	listed chan struct{} // closed with the first list
	ended  chan struct{}
	stop   context.CancelFunc

	mu          sync.Mutex
	models      []Model
	status      WatchStatus
	subscribers map[int]func([]Change, []Model)
	next        int
}

// WatchStatus says how well the list is watched.
type WatchStatus struct {
	Paused         bool
	WatchedFolders int
	PolledFolders  int
	PollReason     string        // why some are polled; "" when none are
	ScanTime       time.Duration // the last renewal took
}

// Watch begins to watch. Close ends it.
func (l *Library) Watch(o WatchOptions) *Watcher {
	setDefault(&o.Quiet, 100*time.Millisecond)
	setDefault(&o.Latest, 500*time.Millisecond)
	setDefault(&o.Poll, 5*time.Second)
	setDefault(&o.Safety, 30*time.Minute)
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.events == nil {
		o.events = fsnotifyEvents
	}
	if o.budget == 0 {
		o.budget = ordinaryBudget()
	}
	ctx, stop := context.WithCancel(context.Background())
	w := &Watcher{library: l, options: o, log: o.Log, pending: map[string]bool{},
		calls: make(chan func()), listed: make(chan struct{}),
		ended: make(chan struct{}), stop: stop, subscribers: map[int]func([]Change, []Model){}}
	w.status.Paused = o.Paused
	go w.run(ctx)
	return w
}

func setDefault(d *time.Duration, value time.Duration) {
	if *d <= 0 {
		*d = value
	}
}

func fsnotifyEvents() (events, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return events{}, err
	}
	return events{w, w.Events, w.Errors}, nil
}

// Models is the list; do not change it. It waits for the first scan.
func (w *Watcher) Models() []Model {
	<-w.listed
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.models
}

// Status says how the list is watched now.
func (w *Watcher) Status() WatchStatus {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.status
}

// Subscribe has f called after each change of the list, on the Watcher's goroutine: it must not
// block. The first list is no change.
func (w *Watcher) Subscribe(f func(changes []Change, models []Model)) (done func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	id := w.next
	w.next++
	w.subscribers[id] = f
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.subscribers, id)
	}
}

// Rescan reads everything anew and returns when the list is that of the disk.
func (w *Watcher) Rescan() {
	w.do(func() {
		w.lost = true
		w.renew(renewAll)
	})
}

// Pause stops watching, or goes on and catches up.
func (w *Watcher) Pause(paused bool) {
	w.do(func() {
		w.mu.Lock()
		changed := w.status.Paused != paused
		w.status.Paused = paused
		w.mu.Unlock()
		if changed {
			w.startOver() // without watches, or with all of them
			if paused {
				w.report(0)
			} else {
				w.renew(renewFew)
			}
		}
	})
}

// Close ends the watching; the list stays as it is.
func (w *Watcher) Close() {
	w.stop()
	<-w.ended
}

// do runs f on the goroutine and waits for it; it does nothing after Close.
func (w *Watcher) do(f func()) {
	done := make(chan struct{})
	select {
	case w.calls <- func() { defer close(done); f() }:
		<-done
	case <-w.ended:
	}
}

// renewFew and renewAll are how many descriptions a renewal may make anew only because they are
// old.
const (
	renewNone = 0
	renewFew  = 8
	renewAll  = 1 << 30
)

func (w *Watcher) run(ctx context.Context) {
	defer close(w.ended)
	source, err := w.options.events()
	if err != nil {
		w.log.Warn("folders are polled for models: the system reports no changes", "err", err)
		source = events{}
	} else {
		defer source.Close()
	}
	w.interest = newInterest(source.notifier, w.options.budget, ordinaryCost)
	w.startOver()
	w.renew(renewNone)
	close(w.listed)

	pause := time.NewTimer(time.Hour)
	pause.Stop()
	poll, safety := time.NewTimer(w.options.Poll), time.NewTicker(w.options.Safety)
	defer poll.Stop()
	defer safety.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-source.events:
			if w.note(e) {
				pause.Reset(w.wait())
			}
		case err := <-source.errors:
			w.failed(err)
			pause.Reset(w.wait())
		case <-pause.C:
			w.renew(renewNone)
		case <-poll.C:
			started := time.Now()
			if !w.paused() {
				w.check()
				w.renew(renewFew)
			}
			poll.Reset(max(w.options.Poll, pollShare*time.Since(started)))
		case <-safety.C:
			if !w.paused() {
				w.lost = true
				w.renew(renewFew)
			}
		case call := <-w.calls:
			call()
		}
	}
}

// pollShare: looking at folders takes at most this part of the time.
const pollShare = 50

func (w *Watcher) paused() bool { return w.Status().Paused }

// note remembers an event, and tells whether anything depends on what it is about.
func (w *Watcher) note(e fsnotify.Event) bool {
	if e.Name == "" || w.paused() || e.Op == fsnotify.Chmod {
		// indexers and backups touch everything
		return false
	}
	structural := e.Has(fsnotify.Create) || e.Has(fsnotify.Remove) || e.Has(fsnotify.Rename)
	if !w.interest.concerns(e.Name, structural) {
		return false
	}
	if len(w.pending) == 0 {
		w.since = time.Now()
	}
	w.pending[e.Name] = w.pending[e.Name] || structural
	return true
}

// wait is how long to wait for a pause.
func (w *Watcher) wait() time.Duration {
	return max(min(w.options.Quiet, w.options.Latest-time.Since(w.since)), 0)
}

func (w *Watcher) failed(err error) {
	if len(w.pending) == 0 {
		w.since = time.Now()
	}
	w.lost = true
	if !errors.Is(err, fsnotify.ErrEventOverflow) {
		w.log.Warn("watching folders", "err", err)
	}
}

// check looks for changes that no event has told of.
func (w *Watcher) check() {
	f := w.scanner.folders
	for _, l := range f.known {
		switch {
		case l.real == "":
			if t := trace(l.from, l.rest); t.real != "" && t.info.IsDir() {
				f.forget(l)
			}
		case !w.interest.vouches(l):
			f.forget(l)
		default:
			info, err := os.Lstat(l.real)
			if err != nil || !os.SameFile(info, l.info) {
				w.pending[l.real] = true
			} else if !info.ModTime().Equal(l.info.ModTime()) {
				f.forget(l)
			}
		}
	}
	for _, root := range w.library.roots {
		if l := f.known[root]; l != nil && l.real != "" && trace(l.from, l.rest).real != l.real {
			f.forget(l)
		}
	}
}

// startOver forgets everything.
func (w *Watcher) startOver() {
	w.interest.reset()
	w.scanner = w.library.scanner()
	if !w.paused() {
		f := w.scanner.folders
		f.cover, f.keep, f.drop = w.interest.cover, w.interest.keep, w.interest.drop
	}
}

// renew makes the list what the disk says now, and tells of what has changed.
func (w *Watcher) renew(renewals int) {
	started := time.Now()
	if w.lost {
		w.startOver()
	}
	f := w.scanner.folders
	for path := range w.interest.stale(w.pending) {
		if l := f.known[path]; l != nil {
			f.forget(l)
		}
	}
	clear(w.pending)
	w.lost = false
	w.scanner.renew = renewals
	models := w.scanner.scan()
	f.prune()
	w.interest.sweep()
	w.publish(models, time.Since(started))
}

// report brings the status up to date.
func (w *Watcher) report(took time.Duration) {
	watching, polling, reason := w.interest.counts()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.status.WatchedFolders, w.status.PolledFolders, w.status.PollReason = watching, polling,
		text(reason)
	if took > 0 {
		w.status.ScanTime = took
	}
}

func (w *Watcher) publish(models []Model, took time.Duration) {
	w.mu.Lock()
	var changes []Change
	if w.models != nil {
		changes = Changes(w.models, models)
	}
	w.models = models
	subscribers := slices.Collect(maps.Values(w.subscribers))
	w.mu.Unlock()
	w.report(took)
	if len(changes) > 0 {
		for _, f := range subscribers {
			f(changes, models)
		}
	}
	if w.options.renewed != nil {
		w.options.renewed()
	}
}
