// Package update keeps Headroom itself up to date: it looks for a newer version in a signed feed,
// downloads and verifies it, lets it take the place of the installed one when Headroom quits, and
// goes back to the version before.
//
//	update.go  the states, and what a person can ask for
//	feed.go    the feed, and the order of versions
//	sign.go    its signature
//	fetch.go   what is fetched over the network
//	unpack.go  unpacking the archive
//	place.go   the folders, and how they change places
//	apply.go   applying at quit, finishing after a kill, and going back
//	record.go  what is remembered between two runs
//
// It is off until the settings have the address of a feed and the key that it is signed with. A
// check asks for two files, and sends nothing about this computer. Nothing is downloaded or applied
// that the key has not signed, nor a version older than this one or than one seen before.
package update

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"time"

	"headroom/app/disk"
	"headroom/engine/problem"
)

// Known is a newer version of Headroom; the zero value: none is known.
type Known struct {
	Version string
	Ready   bool // it was downloaded, and is installed when Headroom quits
}

// Phase is what an Updater does or has.
type Phase string

// The phases.
const (
	Off         Phase = "off"  // the settings have no feed
	Idle        Phase = "idle" // nothing is known to be newer
	Checking    Phase = "checking"
	Available   Phase = "available" // a newer version can be downloaded
	Downloading Phase = "downloading"
	Ready       Phase = "ready" // it is applied when Headroom quits
)

// Status is what a person sees.
type Status struct {
	Phase   Phase  `json:"phase"`
	Current string `json:"current"` // the version that runs
	Version string `json:"version"` // the one that is available, being downloaded or ready; or ""
	Notes   string `json:"notes"`   // what is new in it
	Bytes   int64  `json:"bytes"`   // of its archive
	// DoneBytes were downloaded so far.
	DoneBytes int64 `json:"doneBytes"`
	// CheckedAtUnixMs is when the feed was last read; 0: never.
	CheckedAtUnixMs int64 `json:"checkedAt"`
	// Previous is the version that Back restores; "": there is none.
	Previous string `json:"previous"`
	// GoesBack says that it is restored when Headroom quits.
	GoesBack bool `json:"goesBack"`
	// Installed says that Headroom was installed such that an update can replace it.
	Installed bool `json:"installed"`
	// Err is why the last check or download failed; a Problem.
	Err error `json:"-"`
}

// Options configure an Updater. Feed, Version and File are required.
type Options struct {
	// Feed returns the address of the feed and its key; "" for none.
	Feed    func() (address, key string)
	Version string // the version that runs
	File    string // what is remembered between two runs
	Install string // the folder that an update replaces; "": there is none
	// Program is the path of a program in Install, which has to start before the folder is used.
	Program string
	// Alone reports whether no other Headroom runs from Install. A nil function means yes.
	Alone func() bool
	Log   *slog.Logger // nil: slog.Default()

	now  func() time.Time // nil: time.Now; set in tests
	step func(string)     // called between steps, for tests that end there; nil: nothing
	free func() error     // instead of hasSpace, in tests
}

// Updater keeps one installation up to date. Its methods may be called from any goroutine.
type Updater struct {
	options Options
	place   place
	client  *http.Client
	log     *slog.Logger

	mu      sync.Mutex
	status  Status
	file    File               // of status.Version
	record  record             // as on disk
	cancel  context.CancelFunc // ends the download; nil: there is none
	working sync.WaitGroup
}

// New returns an Updater. It first finishes what an earlier run has begun. Close ends it.
func New(o Options) *Updater {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.now == nil {
		o.now = time.Now
	}
	if o.step == nil {
		o.step = func(string) {}
	}
	u := &Updater{options: o, place: place{o.Install}, client: newClient(), log: o.Log}
	u.status = Status{Installed: o.Install != ""}
	u.finish()
	return u
}

// Status returns the current status.
func (u *Updater) Status() Status {
	address, _ := u.options.Feed()
	defer u.locked()()
	s := u.status
	s.CheckedAtUnixMs = u.record.CheckedAtUnixMs
	s.Current = strings.TrimPrefix(u.options.Version, "v")
	s.Previous, s.GoesBack = strings.TrimPrefix(u.record.Previous, "v"), u.record.GoBack
	switch {
	case s.Phase != "":
	case u.record.Ready != "":
		s.Phase, s.Version = Ready, u.record.Ready
	case address == "":
		s.Phase = Off
	case s.Version != "":
		s.Phase = Available
	default:
		s.Phase = Idle
	}
	return s
}

// begin enters a phase. It returns a Problem if another one has not ended.
func (u *Updater) begin(phase Phase) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.status.Phase != "" {
		return problem.New(problem.Busy, "Headroom is busy with an update", "", "Wait until it "+
			"has ended, or cancel it.")
	}
	u.status.Phase, u.status.Err = phase, nil
	return nil
}

// end leaves a phase with its error.
func (u *Updater) end(err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	u.status.Phase, u.status.Err, u.cancel = "", err, nil
}

// Check reads the feed. The error is a Problem.
func (u *Updater) Check(ctx context.Context) (err error) {
	address, key := u.options.Feed()
	if address == "" {
		return problem.New(problem.NotFound, "There is no update feed",
			"the settings have no address of one", "Enter it in Settings, Updates.")
	}
	if err := u.begin(Checking); err != nil {
		return err
	}
	defer func() { u.end(err) }()
	feed, file, err := fetchFeed(ctx, u.client, address, key, runtime.GOOS, runtime.GOARCH)
	if err != nil {
		return err
	}
	defer u.locked()()
	u.record.CheckedAtUnixMs = u.options.now().UnixMilli()
	u.status.Version, u.status.Notes, u.status.Bytes, u.file = "", "", 0, File{}
	if err := u.refuseOlder(feed.Version); err != nil {
		return errors.Join(err, u.save())
	}
	u.record.Newest = feed.Version
	if newer(feed.Version, u.options.Version) && feed.Version != u.record.Ready {
		u.status.Version, u.status.Notes, u.status.Bytes = feed.Version, feed.Notes, file.Bytes
		u.file = file
		u.log.Info("an update is available", "version", feed.Version)
	}
	return u.save()
}

// refuseOlder returns a Problem for a version older than the one that runs, or than one that a feed
// has had before: somebody may offer an old feed again, for what was repaired since. The caller
// holds mu.
func (u *Updater) refuseOlder(offered string) error {
	for _, known := range []struct{ version, why string }{
		{u.options.Version, "this is " + u.options.Version},
		{u.record.Newest, "the feed has offered " + u.record.Newest + " before"},
	} {
		if newer(known.version, offered) {
			return problem.New(problem.Forbidden, "The update feed offers an older version",
				"it has "+offered+", and "+known.why, "Nothing was changed. An older version is "+
					"installed by hand only.")
		}
	}
	return nil
}

// Download downloads the available version in the background. The error is a Problem: there is
// none, or it cannot be installed. Later ones are in Status.
func (u *Updater) Download() error {
	if u.options.Install == "" {
		return problem.New(problem.NotFound, "This copy of Headroom cannot update itself",
			"it was not installed from a release", "Update it in the way in which you built it.")
	}
	if err := u.begin(Downloading); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	u.mu.Lock()
	u.cancel = cancel
	file, version := u.file, u.status.Version
	u.status.DoneBytes = 0
	u.mu.Unlock()
	if version == "" {
		cancel()
		u.end(nil)
		return problem.New(problem.NotFound, "There is no update to download", "",
			"Check for updates first.")
	}
	u.working.Go(func() {
		defer cancel()
		err := u.stage(ctx, file, version)
		if err != nil {
			u.log.Warn("the update was not downloaded", "version", version, "err", err)
		}
		u.end(err)
	})
	return nil
}

// stage downloads, verifies and unpacks a version, and tries whether it starts.
func (u *Updater) stage(ctx context.Context, f File, version string) error {
	lock, err := u.lock()
	if err != nil {
		return err
	}
	defer lock()
	unlock := u.locked()
	u.record.Ready, u.record.Folder = "", ""
	err = u.save()
	unlock()
	if err == nil {
		err = u.place.prepare()
	}
	if err == nil && u.options.free != nil {
		err = u.options.free()
	} else if err == nil {
		err = hasSpace(u.place.stage(), f)
	}
	if err != nil {
		return err
	}
	err = download(ctx, u.client, f, u.place.archive(), func(done int64) {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.status.DoneBytes = done
	})
	if err == nil {
		err = u.unpackAndTry(ctx, f, version)
	}
	if err != nil {
		return errors.Join(err, u.place.clear())
	}
	u.log.Info("the update is ready; it is applied at quit", "version", version)
	defer u.locked()()
	u.record.Ready, u.record.Folder, u.record.GoBack = version, f.Folder, false
	u.status.Version = ""
	return u.save()
}

// lock keeps other programs from changing the updates of this installation. The error is a Problem.
func (u *Updater) lock() (unlock func(), err error) {
	lock, err := disk.TryLock(u.options.File+".lock", 0o600)
	if errors.Is(err, disk.ErrLocked) {
		return nil, problem.New(problem.Busy, "Another Headroom is busy with an update", "",
			"Wait until it has ended.")
	}
	if err != nil {
		return nil, notWritten(err)
	}
	return func() { _ = lock.Close() }, nil
}

// Cancel stops a download, or drops a version that is ready, and forgets that Back was asked for.
func (u *Updater) Cancel() error {
	u.mu.Lock()
	cancel := u.cancel
	u.mu.Unlock()
	if cancel != nil {
		cancel()
		u.working.Wait()
	}
	defer u.locked()()
	u.record.Ready, u.record.Folder, u.record.GoBack = "", "", false
	return errors.Join(u.save(), u.place.clear())
}

// Back lets the version before take the place of this one when Headroom quits. The error is a
// Problem.
func (u *Updater) Back() error {
	defer u.locked()()
	if u.record.Previous == "" {
		return problem.New(problem.NotFound, "There is no earlier version to go back to", "",
			"Install it by hand.")
	}
	u.record.GoBack = true
	return u.save()
}

// checkEvery is the time between two checks by themselves.
const checkEvery = 24 * time.Hour

// Run checks once a day while the settings have a feed, until ctx ends.
func (u *Updater) Run(ctx context.Context) {
	tick := time.NewTicker(10 * time.Minute)
	defer tick.Stop()
	for {
		if u.due() {
			if err := u.Check(ctx); err != nil {
				u.log.Info("looking for an update failed", "err", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// due reports whether a day has passed since the last check. A failed one counts.
func (u *Updater) due() bool {
	address, _ := u.options.Feed()
	defer u.locked()()
	now := u.options.now()
	if address == "" || now.Sub(time.UnixMilli(u.record.TriedAtUnixMs)) < checkEvery {
		return false
	}
	u.record.TriedAtUnixMs = now.UnixMilli()
	if err := u.save(); err != nil {
		u.log.Debug("the state of updates could not be saved", "err", err)
	}
	return true
}

// Close stops a download.
func (u *Updater) Close() {
	u.mu.Lock()
	cancel := u.cancel
	u.mu.Unlock()
	if cancel != nil {
		cancel()
	}
	u.working.Wait()
}
