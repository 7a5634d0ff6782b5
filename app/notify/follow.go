package notify

// Follow watches the host and the jobs, and shows notices about their changes.

import (
	"context"
	"log/slog"
	"math"

	"headroom/app/host"
	"headroom/app/jobs"
	"headroom/app/update"
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
	On      func() bool         // reports whether to show notices; called for each one
	Clicked func(Notice)        // called on a click
	Update  func() update.Known // the newer version of Headroom that is known
	Log     *slog.Logger        // nil: slog.Default()
}

// Follow shows notices until ctx ends, then closes the service, which removes them. It shows no
// notices about events before the call.
func Follow(ctx context.Context, o Options) {
	log := o.Log
	if log == nil {
		log = slog.Default()
	}
	changed, done := o.Host.Subscribe()
	defer done()
	jobsChanged, unsubscribe := o.Jobs.Subscribe()
	defer unsubscribe()
	defer o.Service.Close()

	_, seen := o.Host.ModelChanges(math.MaxInt)
	now := func() snapshot {
		s := snapshot{jobs: o.Jobs.Jobs(), state: o.Host.State(),
			models: func() host.ModelList { return o.Host.Models(0) }, rescan: o.Host.RescanModels,
			update: o.Update()}
		s.changes, seen = o.Host.ModelChanges(seen)
		return s
	}
	var n news
	n.first(now())
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-jobsChanged:
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
