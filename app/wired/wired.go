// Package wired is the wired limit of a Mac with Apple silicon: how much memory the GPU may hold in
// place, what would be safe, and the commands that change it.
//
// The limit is the kernel's variable iogpu.wired_limit_mb: 0 is the system's own choice, about two
// thirds of the memory of a small machine and three quarters of a large one, which only Metal can
// tell. Whatever is set holds at once and is gone after a restart, unless a launch daemon sets it
// again. Changing it takes an administrator, whom the system's own dialog asks.
//
// commands.go makes the commands, from numbers alone; System is the machine, or a fake one in
// tests.
package wired

import (
	"context"
	"fmt"
	"sync"

	"headroom/engine/problem"
)

// Reading is what the machine says.
type Reading struct {
	TotalBytes int64
	SetMB      int64 // of iogpu.wired_limit_mb; 0: the system's default
	KeptMB     int64 // that our launch daemon sets at each start; 0: there is none
	// what Metal calls the largest working set without harm to speed, by the limit that holds now;
	// 0: unknown
	RecommendedBytes int64
	// Inapplicable says in a sentence why there is no such limit here; "": there is one, and the
	// rest is filled in.
	Inapplicable string
}

// System is the machine.
type System interface {
	Read() (Reading, error)
	// Administrator has a shell run the script as root, if the person at the machine agrees to it
	// in the system's dialog; ErrDeclined if not.
	Administrator(ctx context.Context, script string) error
}

// Action is what can be done to the limit.
type Action string

// The actions.
const (
	Once Action = "once" // until the next restart
	Keep Action = "keep" // now and after each restart
	Undo Action = "undo" // the system's default, now and after restarts
)

// Status is all that there is to show. Sizes are in bytes.
type Status struct {
	// why there is no such limit here; "": there is
	Inapplicable string `json:"inapplicable"`
	SetBytes     int64  `json:"setBytes"`  // 0: the system's default holds
	KeptBytes    int64  `json:"keptBytes"` // set again at each start; 0: nothing is
	// by Metal, for the limit that holds now; 0: unknown
	RecommendedBytes int64 `json:"recommendedBytes"`
	// the most that leaves the system what it needs
	SafeBytes  int64 `json:"safeBytes"`
	LeastBytes int64 `json:"leastBytes"` // that is accepted
	MostBytes  int64 `json:"mostBytes"`  // that is accepted
	// Commands are what would be run as root to set AskedBytes.
	AskedBytes int64    `json:"askedBytes"`
	Commands   Commands `json:"commands"`
}

// Commands are shell scripts, one for each action.
type Commands struct {
	Once string `json:"once"`
	Keep string `json:"keep"`
	Undo string `json:"undo"`
}

// Limit reads and changes the limit. Its methods may be called from any goroutine; one change is
// made at a time.
type Limit struct {
	system System
	mu     sync.Mutex
}

// New is the limit of a machine.
func New(system System) *Limit { return &Limit{system: system} }

const (
	mib = 1 << 20
	gib = 1 << 30
	// The system and its programs keep an eighth of the memory in a safe limit, at least 4 GiB and
	// at most 8: beyond that, more for them would only keep large machines from large models. Under
	// leastLeftBytes a Mac comes to a stop, so nothing above it is accepted.
	reserveShare    = 8
	reserveMinBytes = 4 * gib
	reserveMaxBytes = 8 * gib
	leastLeftBytes  = 2 * gib
	leastLimitBytes = 1 * gib
)

// SafeBytes is the largest limit of a machine with so much memory that leaves enough to everything
// else, in whole GiB.
func SafeBytes(totalBytes int64) int64 {
	reserve := min(max(totalBytes/reserveShare, reserveMinBytes), reserveMaxBytes)
	return max(totalBytes-reserve, 0) / gib * gib
}

// Status reads the limit, and says how it would be set to askedBytes; 0: to what is safe.
func (l *Limit) Status(askedBytes int64) (Status, error) {
	r, err := l.system.Read()
	if err != nil {
		return Status{}, problem.Wrap(problem.Internal, err, "The wired limit cannot be read", "")
	}
	return status(r, askedBytes), nil
}

func status(r Reading, askedBytes int64) Status {
	if r.Inapplicable != "" {
		return Status{Inapplicable: r.Inapplicable}
	}
	s := Status{SetBytes: r.SetMB * mib, KeptBytes: r.KeptMB * mib,
		RecommendedBytes: r.RecommendedBytes, SafeBytes: SafeBytes(r.TotalBytes),
		LeastBytes: leastLimitBytes, MostBytes: max(r.TotalBytes-leastLeftBytes, leastLimitBytes)}
	if s.AskedBytes = askedBytes; askedBytes == 0 {
		s.AskedBytes = s.SafeBytes
	}
	s.AskedBytes = min(max(s.AskedBytes, s.LeastBytes), s.MostBytes) / mib * mib
	s.Commands = commands(s.AskedBytes / mib)
	return s
}

// Change does what the commands of Status(askedBytes) say, once the person at the machine has
// agreed, and tells what holds then. ctx ends the waiting for that. Errors are Problems.
func (l *Limit) Change(ctx context.Context, action Action, askedBytes int64) (Status, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before, err := l.Status(askedBytes)
	if err != nil {
		return Status{}, err
	}
	switch {
	case before.Inapplicable != "":
		return Status{}, problem.New(problem.BadRequest, "There is no wired limit to change",
			before.Inapplicable, "")
	case action != Undo && askedBytes != 0 &&
		(askedBytes < before.LeastBytes || askedBytes > before.MostBytes):
		return Status{}, problem.New(problem.BadRequest,
			fmt.Sprintf("The wired limit cannot be %.1f GB", float64(askedBytes)/gib),
			"the system and its programs need memory too",
			fmt.Sprintf("Choose from %d to %d GB; %d GB are safe.", before.LeastBytes/gib,
				before.MostBytes/gib, before.SafeBytes/gib))
	}
	script, ok := map[Action]string{Once: before.Commands.Once, Keep: before.Commands.Keep,
		Undo: before.Commands.Undo}[action]
	if !ok {
		return Status{}, problem.New(problem.BadRequest,
			fmt.Sprintf("There is no action %q", action), "", "Send once, keep or undo.")
	}
	if err := l.system.Administrator(ctx, script); err != nil {
		return Status{}, refused(err)
	}
	return l.Status(askedBytes)
}
