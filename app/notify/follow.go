package notify

// Following the host and the jobs, and showing their news.

import (
	"context"
	"log/slog"
	"math"

	"headroom/app/host"
	"headroom/app/jobs"
)

// Host is the part of *host.Host that Follow watches.
type Host interface {
	State() host.State
	Models(contextTokens int) host.ModelList
	RescanModels()
	ModelChanges(after int) (changes []host.ModelChange, last int)
	Subscribe() (changed <-chan struct{}, done func())
}

// Options configure Follow. All fields but Log are required.
type Options struct {
	Host    Host
	Jobs    *jobs.List
	Service Service
	On      func() bool  // whether notices are shown; called for each one
	Clicked func(Notice) // called on a click
	Log     *slog.Logger // nil: slog.Default()
}

// Follow shows notices until ctx ends, then removes those still shown. Events before the call are
// not shown.
func Follow(ctx context.Context, o Options) {
	log := o.Log
	if log == nil {
		log = slog.Default()
	}
	changed, done := o.Host.Subscribe()
	defer done()
	moved, unsubscribe := o.Jobs.Subscribe()
	defer unsubscribe()
	defer o.Service.Close()

	_, seen := o.Host.ModelChanges(math.MaxInt)
	now := func() look {
		l := look{jobs: o.Jobs.Jobs(), state: o.Host.State(),
			models: func() host.ModelList { return o.Host.Models(0) }, rescan: o.Host.RescanModels}
		l.changes, seen = o.Host.ModelChanges(seen)
		return l
	}
	var n news
	n.first(now())
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-moved:
		}
		for _, notice := range n.since(now()) {
			if !o.On() {
				continue
			}
			if err := o.Service.Show(notice, func() { o.Clicked(notice) }); err != nil {
				log.Info("showing a notification failed", "title", notice.Title, "err", err)
			}
		}
	}
}
