package update

// Applying at quit, finishing after a kill, and going back.
//
// The record says which versions are about to change places before they do. The next run knows its
// own version, and so whether they did.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"time"

	"headroom/engine/problem"
)

const (
	// tryTime is how long a program of the new version may take to say its version.
	tryTime = 30 * time.Second
	// maxStarts is how often a fresh version may start without running for a while, before the one
	// before takes its place again.
	maxStarts = 2
)

// unpackAndTry unpacks the archive and starts a program of it. The error is a Problem.
func (u *Updater) unpackAndTry(ctx context.Context, f File, version string) error {
	if err := unpack(ctx, u.place.archive(), u.place.next()); err != nil {
		if p := notWritten(err); problem.From(p).Code == problem.DiskFull || ctx.Err() != nil {
			return errors.Join(ctx.Err(), p)
		}
		return damaged("its archive cannot be unpacked: " + err.Error())
	}
	program := filepath.Join(u.place.next(), filepath.FromSlash(f.Folder), u.options.Program)
	ctx, cancel := context.WithTimeout(ctx, tryTime)
	defer cancel()
	said, err := exec.CommandContext(ctx, program, "--version").Output()
	if err != nil {
		return problem.Wrap(problem.Internal, err, "The update does not start on this computer",
			"Nothing was changed. Tell the publisher of the feed.")
	}
	if !bytes.Contains(said, []byte(version)) {
		return problem.New(problem.Internal, "The update is not the version of the feed",
			fmt.Sprintf("its program says %q, the feed %q", bytes.TrimSpace(said), version),
			"Nothing was changed. Tell the publisher of the feed.")
	}
	return nil
}

// Apply lets the version that is ready, or the one before, take the place of the installed one. The
// caller is about to quit, and nothing of Headroom runs any more. applied is the version that the
// next start runs, "" if nothing has changed. The error is a Problem; then nothing has changed,
// either.
func (u *Updater) Apply() (applied string, err error) {
	defer u.locked()()
	folder, to := filepath.Join(u.place.next(), filepath.FromSlash(u.record.Folder)), u.record.Ready
	if u.record.GoBack {
		folder, to = u.place.previous(), u.record.Previous
	}
	if to == "" || u.options.Install == "" {
		return "", nil
	}
	if u.options.Alone != nil && !u.options.Alone() {
		u.log.Info("the update waits: another Headroom is running", "version", to)
		return "", nil
	}
	unlock, err := u.lock()
	if err != nil {
		return "", err
	}
	defer unlock()
	return to, u.change(folder, to)
}

// change lets a folder with a version take the place of the installed one. The caller holds mu and
// the lock.
func (u *Updater) change(folder, to string) error {
	u.record.From, u.record.To = u.options.Version, to
	if err := u.save(); err != nil {
		return err
	}
	u.options.step("noted")
	if err := u.place.exchange(folder); err != nil {
		u.record.From, u.record.To, u.record.GoBack = "", "", false
		return errors.Join(problem.Wrap(problem.Internal, err, "The update could not be applied",
			"Headroom is as before. Install the new version by hand."), u.save())
	}
	u.options.step("exchanged")
	u.log.Info("the update was applied", "from", u.options.Version, "to", to)
	return u.changed(folder)
}

// changed notes that the versions of the record have changed places. folder has the one before. The
// caller holds mu.
func (u *Updater) changed(folder string) error {
	r := &u.record
	if r.GoBack {
		r.Previous, r.GoBack, r.Fresh = "", false, ""
		r.Ready, r.Folder = "", ""
	} else {
		if err := u.place.keepPrevious(folder); err != nil {
			u.log.Warn("the version before could not be kept", "err", err)
		}
		u.options.step("kept")
		r.Previous, r.Fresh, r.Starts = r.From, r.To, 0
		r.Ready, r.Folder = "", ""
	}
	r.From, r.To = "", ""
	if err := u.save(); err != nil {
		return err
	}
	u.options.step("saved")
	if r.Previous == "" {
		return u.place.forget()
	}
	return u.place.clear()
}

// finish completes what an earlier run was killed in, and removes what it has left.
func (u *Updater) finish() {
	if u.options.Install == "" {
		return
	}
	defer u.locked()()
	unlock, err := u.lock()
	if err != nil {
		return // another Headroom is at it
	}
	defer unlock()
	r := &u.record
	switch {
	case r.To == "":
	case same(r.To, u.options.Version):
		folder := filepath.Join(u.place.next(), filepath.FromSlash(r.Folder))
		if err := u.changed(folder); err != nil {
			u.log.Warn("an update could not be finished", "err", err)
		}
	default: // they did not change places
		r.From, r.To = "", ""
		if err := u.save(); err != nil {
			u.log.Warn("an update could not be finished", "err", err)
		}
	}
	if r.Ready != "" && !newer(r.Ready, u.options.Version) { // it was installed by hand
		r.Ready, r.Folder = "", ""
		_ = u.save()
	}
	if r.Previous != "" && !u.place.has(u.place.previous()) {
		r.Previous, r.GoBack = "", false
		_ = u.save()
	}
	if r.Ready == "" && u.place.isOurs() {
		_ = u.place.clear()
	}
}

// same reports whether two texts are the same version.
func same(a, b string) bool {
	if a == b {
		return true
	}
	x, ok := parseVersion(a)
	y, known := parseVersion(b)
	return ok && known && x == y
}

// Started is called when a program of the installation has started. If a fresh version was started
// several times, and never ran for a while, it takes the version before back, and returns true: the
// caller starts again.
func (u *Updater) Started() (goBack bool) {
	defer u.locked()()
	r := &u.record
	if r.Fresh == "" || !same(r.Fresh, u.options.Version) {
		return false
	}
	if r.Starts++; r.Starts <= maxStarts || r.Previous == "" {
		_ = u.save()
		return false
	}
	unlock, err := u.lock()
	if err != nil {
		return false
	}
	defer unlock()
	u.log.Error("the new version does not keep running: going back", "from", u.options.Version,
		"to", r.Previous)
	r.GoBack = true
	return u.change(u.place.previous(), r.Previous) == nil
}

// Healthy is called when a program of the installation has run for a while, or has quit as it
// should. Started then no longer counts.
func (u *Updater) Healthy() {
	defer u.locked()()
	if u.record.Fresh != "" && same(u.record.Fresh, u.options.Version) {
		u.record.Fresh, u.record.Starts = "", 0
		_ = u.save()
	}
}
