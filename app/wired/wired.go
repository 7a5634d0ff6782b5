// Package wired reads and changes the wired limit of a Mac with Apple silicon: how much memory the
// GPU may wire.
//
// The limit is the kernel variable iogpu.wired_limit_mb. 0 means the system's default: about two
// thirds of the memory of a small machine, and three quarters of a large one. Only Metal reports
// its exact size. A new limit takes effect at once and lasts until the next restart. A launch
// daemon can set it at every start. Changing the limit requires an administrator's password, for
// which macOS asks.
//
// commands.go builds the commands; earlier.go keeps the limit that Reset restores. System is the
// machine, or a fake in tests.
package wired

import (
	"context"
	"fmt"
	"sync"

	"headroom/engine/problem"
)

// Reading is the state of the limit on a machine.
type Reading struct {
	TotalBytes  int64
	LimitMB     int64 // iogpu.wired_limit_mb; 0: the system's default
	PersistedMB int64 // limit that Headroom's launch daemon sets at each start; 0: there is none
	// RecommendedBytes is Metal's recommendedMaxWorkingSetSize under the current limit; 0: unknown.
	RecommendedBytes int64
	// UnavailableReason is a sentence that says why this machine has no such limit; the other
	// fields are not set then. "" means that there is one.
	UnavailableReason string
}

// System is the machine whose limit is read and changed.
type System interface {
	Read() (Reading, error)
	// Administrator runs a shell script as root, after the user has entered an administrator's
	// password in the system's dialog. It returns ErrDeclined if the user cancels the dialog.
	Administrator(ctx context.Context, script string) error
}

// Action is a change of the limit.
type Action string

// The actions.
const (
	Set     Action = "set"     // until the next restart
	Persist Action = "persist" // now and after each restart
	Reset   Action = "reset"   // what applied before Headroom's first change; no launch daemon
)

// Status is the state of the limit and the commands that change it. Sizes are in bytes.
type Status struct {
	// UnavailableReason says why this machine has no such limit; "": it has one.
	UnavailableReason string `json:"unavailableReason"`
	LimitBytes        int64  `json:"limitBytes"`     // 0: the system's default
	PersistedBytes    int64  `json:"persistedBytes"` // set again at each start; 0: none
	// RecommendedBytes is Metal's recommendation under the current limit; 0: unknown.
	RecommendedBytes int64 `json:"recommendedBytes"`
	// SafeBytes is the largest limit that leaves enough memory for the system and other programs.
	SafeBytes int64 `json:"safeBytes"`
	MinBytes  int64 `json:"minBytes"` // smallest valid limit
	MaxBytes  int64 `json:"maxBytes"` // largest valid limit
	// EarlierBytes is the limit that Reset sets: the one before Headroom's first change; 0: the
	// system's default.
	EarlierBytes int64 `json:"earlierBytes"`
	// RequestedBytes is the limit that Commands set.
	RequestedBytes int64    `json:"requestedBytes"`
	Commands       Commands `json:"commands"`
}

// Commands are shell scripts, one for each action.
type Commands struct {
	Set     string `json:"set"`
	Persist string `json:"persist"`
	Reset   string `json:"reset"`
}

// Limit reads and changes the wired limit. Its methods may be called from any goroutine. Only one
// change runs at a time.
type Limit struct {
	system System
	path   string

	mu      sync.Mutex // held during a change
	keeping sync.Mutex // guards earlier
	earlier earlier
}

// New returns the limit of a machine. path is the file that keeps the limit from before Headroom's
// first change; "": it is known until the program ends.
func New(system System, path string) *Limit {
	return &Limit{system: system, path: path, earlier: loadEarlier(path)}
}

const (
	mib = 1 << 20
	gib = 1 << 30
	// A safe limit leaves an eighth of the memory to the system and other programs, at least 4 GiB
	// and at most 8 GiB: more would only keep large models off large machines. A limit that leaves
	// less than minLeftBytes is not valid, because the Mac would stop responding.
	reserveShare    = 8
	reserveMinBytes = 4 * gib
	reserveMaxBytes = 8 * gib
	minLeftBytes    = 2 * gib
	minLimitBytes   = 1 * gib
)

// SafeBytes returns the largest limit, in whole GiB, that leaves enough memory for the system and
// other programs on a machine with totalBytes.
func SafeBytes(totalBytes int64) int64 {
	reserve := min(max(totalBytes/reserveShare, reserveMinBytes), reserveMaxBytes)
	return max(totalBytes-reserve, 0) / gib * gib
}

// Status reads the limit. Its commands set the limit to requestedBytes, rounded and clamped to the
// valid range; 0 means the safe limit. The error is a Problem.
func (l *Limit) Status(requestedBytes int64) (Status, error) {
	r, err := l.system.Read()
	if err != nil {
		return Status{}, problem.Wrap(problem.Internal, err, "The wired limit cannot be read", "")
	}
	return status(r, l.known(), requestedBytes), nil
}

// known returns what is known about the earlier limit.
func (l *Limit) known() earlier {
	l.keeping.Lock()
	defer l.keeping.Unlock()
	return l.earlier
}

func status(r Reading, before earlier, requestedBytes int64) Status {
	if r.UnavailableReason != "" {
		return Status{UnavailableReason: r.UnavailableReason}
	}
	s := Status{LimitBytes: r.LimitMB * mib, PersistedBytes: r.PersistedMB * mib,
		RecommendedBytes: r.RecommendedBytes, SafeBytes: SafeBytes(r.TotalBytes),
		MinBytes: minLimitBytes, MaxBytes: max(r.TotalBytes-minLeftBytes, minLimitBytes)}
	if s.RequestedBytes = requestedBytes; requestedBytes == 0 {
		s.RequestedBytes = s.SafeBytes
	}
	s.RequestedBytes = min(max(s.RequestedBytes, s.MinBytes), s.MaxBytes) / mib * mib
	s.EarlierBytes = before.restores(r.LimitMB) * mib
	s.Commands = commands(s.RequestedBytes/mib, s.EarlierBytes/mib)
	return s
}

// Change runs the action's command of Status(requestedBytes), after the user has entered the
// password, and returns the new status. Cancelling ctx closes the dialog. The error is a Problem.
func (l *Limit) Change(ctx context.Context, action Action, requestedBytes int64) (Status, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before, err := l.Status(requestedBytes)
	if err != nil {
		return Status{}, err
	}
	switch {
	case before.UnavailableReason != "":
		return Status{}, problem.New(problem.BadRequest, "There is no wired limit to change",
			before.UnavailableReason, "")
	case action != Reset && requestedBytes != 0 &&
		(requestedBytes < before.MinBytes || requestedBytes > before.MaxBytes):
		return Status{}, problem.New(problem.BadRequest,
			fmt.Sprintf("A wired limit of %.1f GB is not valid", float64(requestedBytes)/gib),
			"the system and its programs need memory too",
			fmt.Sprintf("Choose %d to %d GB; up to %d GB is safe.", before.MinBytes/gib,
				before.MaxBytes/gib, before.SafeBytes/gib))
	}
	script, ok := map[Action]string{Set: before.Commands.Set, Persist: before.Commands.Persist,
		Reset: before.Commands.Reset}[action]
	if !ok {
		return Status{}, problem.New(problem.BadRequest,
			fmt.Sprintf("There is no action %q", action), "", "Send set, persist or reset.")
	}
	kept := l.known().after(action, before.LimitBytes/mib, before.RequestedBytes/mib)
	if action != Reset { // stored first: a crash must not lose the earlier limit
		if err := kept.store(l.path); err != nil {
			return Status{}, problem.Wrap(problem.Internal, err,
				"The current limit could not be stored, so that it could not be restored later",
				"Check the permissions and the free space of the settings folder.")
		}
	}
	if err := l.system.Administrator(ctx, script); err != nil {
		_ = l.known().store(l.path) // an outdated file restores nothing: the limit is not its SetMB
		return Status{}, refused(err)
	}
	l.keeping.Lock()
	l.earlier = kept
	l.keeping.Unlock()
	if action == Reset {
		_ = kept.store(l.path) // an outdated file restores nothing: the limit is not its SetMB
	}
	return l.Status(requestedBytes)
}
