package library

// Keeping the list up to date. One goroutine collects events until they pause, drops the listings
// that they make stale, and scans again, reading only the dropped listings. So each list is the
// result of one scan.
//
// Events are incomplete. A volume that is mounted over a folder sends none, folders beyond the
// limit have no watch, and the system drops events that are not read in time. Therefore check polls
// the folders and drops the listings of those without a watch, and every Safety interval everything
// is read again. The longer a poll takes, the longer is the wait for the next one.

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

// WatchOptions configure a Watcher. The zero value is ready to use.
type WatchOptions struct {
	Paused bool          // start paused: only Rescan changes the list
	Quiet  time.Duration // pause in events before a scan; 0: 100 ms
	Latest time.Duration // longest wait for such a pause; 0: 500 ms
	Poll   time.Duration // interval of polls; 0: 5 s; longer if polls are slow
	Safety time.Duration // interval of complete scans; 0: 30 min
	Log    *slog.Logger  // nil: slog.Default()

	events  func() (events, error) // nil: fsnotify's
	budget  int                    // 0: defaultBudget
	renewed func()                 // called after each scan; may be nil
}

// events is a source of file system events.
type events struct {
	notifier
	events <-chan fsnotify.Event
	errors <-chan error
}

// Watcher keeps a Library's list up to date. Its methods are safe for concurrent use, but a
// subscriber must not call Close, Pause or Rescan: they wait for the goroutine that called it.
type Watcher struct {
	library *Library
	options WatchOptions
	log     *slog.Logger

	// Owned by the goroutine run.
	scanner  *scanner
	interest *interest
	pending  map[string]bool // real paths with events; true: created, removed or renamed
	lost     bool            // events were lost: all listings are stale
	since    time.Time       // of the first pending event

	calls  chan func()
	listed chan struct{} // closed after the first scan
	ended  chan struct{}
	stop   context.CancelFunc

	mu          sync.Mutex
	models      []Model
	status      WatchStatus
	subscribers map[int]func([]Change, []Model)
	next        int
}

// WatchStatus is the state of a Watcher.
type WatchStatus struct {
	Paused         bool
	WatchedFolders int
	PolledFolders  int
	PollReason     string        // one reason for polling; "" if none is polled
	ScanTime       time.Duration // duration of the last scan
}

// Watch returns a Watcher of the list. The caller must close it.
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
		o.budget = defaultBudget()
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

// Models returns the list, which callers must not change. It waits for the first scan.
func (w *Watcher) Models() []Model {
	<-w.listed
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.models
}

// Await waits for the first scan. The error is that of ctx.
func (w *Watcher) Await(ctx context.Context) error {
	select {
	case <-w.listed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Listed reports whether the first scan has ended.
func (w *Watcher) Listed() bool {
	select {
	case <-w.listed:
		return true
	default:
		return false
	}
}

// Status returns the current status.
func (w *Watcher) Status() WatchStatus {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.status
}

// Subscribe calls f after each change of the list, on the Watcher's goroutine; f must not block.
// The first list is not a change. done ends the subscription.
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

// Rescan reads everything again and returns when the list is up to date.
func (w *Watcher) Rescan() {
	w.do(func() {
		w.lost = true
		w.renew(renewAll)
	})
}

// Pause stops watching, or resumes it and scans again.
func (w *Watcher) Pause(paused bool) {
	w.do(func() {
		w.mu.Lock()
		changed := w.status.Paused != paused
		w.status.Paused = paused
		w.mu.Unlock()
		if changed {
			w.startOver() // removes all watches, and sets them again unless paused
			if paused {
				w.report(0)
			} else {
				w.renew(renewFew)
			}
		}
	})
}

// Close stops watching. Models still returns the last list.
func (w *Watcher) Close() {
	w.stop()
	<-w.ended
}

// do runs f on the Watcher's goroutine and waits for it. After Close it does nothing.
func (w *Watcher) do(f func()) {
	done := make(chan struct{})
	select {
	case w.calls <- func() { defer close(done); f() }:
		<-done
	case <-w.ended:
	}
}

// The number of stale descriptions that a scan may renew.
const (
	renewNone = 0
	renewFew  = 8
	renewAll  = 1 << 30
)

func (w *Watcher) run(ctx context.Context) {
	defer close(w.ended)
	source, err := w.options.events()
	if err != nil {
		w.log.Warn("polling the model folders: the system does not report changes", "err", err)
		source = events{}
	} else {
		defer source.Close()
	}
	w.interest = newInterest(source.notifier, w.options.budget, defaultCost)
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

// pollShare bounds polling: it takes at most 1/pollShare of the time.
const pollShare = 50

func (w *Watcher) paused() bool { return w.Status().Paused }

// note records an event and reports whether a listing depends on its path.
func (w *Watcher) note(e fsnotify.Event) bool {
	if e.Name == "" || w.paused() || e.Op == fsnotify.Chmod {
		// Indexers and backups change the mode of every file.
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

// wait returns how long to wait for a pause in the events.
func (w *Watcher) wait() time.Duration {
	return max(min(w.options.Quiet, w.options.Latest-time.Since(w.since)), 0)
}

// failed handles an error of the event source. Events may be lost, so everything is read again.
func (w *Watcher) failed(err error) {
	if len(w.pending) == 0 {
		w.since = time.Now()
	}
	w.lost = true
	if !errors.Is(err, fsnotify.ErrEventOverflow) {
		w.log.Warn("watching folders", "err", err)
	}
}

// check looks for changes that caused no event, and drops the listings that they make stale.
func (w *Watcher) check() {
	f := w.scanner.folders
	for _, l := range f.known {
		switch {
		case l.real == "":
			if t := trace(l.from, l.rest); t.real != "" && t.info.IsDir() {
				f.forget(l)
			}
		case !w.interest.isCovered(l):
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

// startOver drops all listings and watches.
func (w *Watcher) startOver() {
	w.interest.reset()
	w.scanner = w.library.scanner()
	if !w.paused() {
		f := w.scanner.folders
		f.cover, f.keep, f.drop = w.interest.cover, w.interest.keep, w.interest.drop
	}
}

// renew scans again and publishes the list.
func (w *Watcher) renew(renewals int) {
	started := time.Now()
	if w.lost {
		w.startOver()
	}
	w.forget(w.pending)
	clear(w.pending)
	w.lost = false
	w.scanner.renew = renewals
	models := w.scanner.scan()
	for range maxReadings {
		away := w.interest.takeAway()
		if len(away) == 0 {
			break
		}
		w.forget(away)
		models = w.scanner.scan()
	}
	w.scanner.folders.prune()
	w.interest.sweep()
	w.publish(models, time.Since(started))
}

// forget drops the listings that events make stale.
func (w *Watcher) forget(events map[string]bool) {
	f := w.scanner.folders
	for path := range w.interest.stale(events) {
		if l := f.known[path]; l != nil {
			f.forget(l)
		}
	}
}

// report updates the status.
func (w *Watcher) report(took time.Duration) {
	watching, polling, reason := w.interest.counts()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.status.WatchedFolders, w.status.PolledFolders = watching, polling
	w.status.PollReason = text(reason)
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
