package commands

// `headroom cache move`. A running server that has the cache open moves it, and the command waits.
// Without such a server the command moves it itself.

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"time"

	"headroom/app/cache"
	"headroom/app/control"
	"headroom/app/jobs"
	"headroom/app/service"
	"headroom/engine"
	"headroom/engine/problem"
)

// CacheMove is `headroom cache move`.
type CacheMove struct {
	To string `arg:"" name:"dir" help:"Folder to move to. If it holds other files, the cache gets a folder \"headroom-blocks\" in it." type:"path"`
}

// Run moves the cache of the settings.
func (m *CacheMove) Run(ctx context.Context, c *Cache, t *terminal) error {
	if c.Dir != "" {
		return problem.New(problem.BadRequest, "Only the cache of the settings can be moved",
			"--block-ssd-cache-dir was given", "Leave it out.")
	}
	o, err := c.folder()
	if err != nil {
		return err
	}
	var to string
	if servers := serversWithCache(ctx, o.Dir); len(servers) > 0 {
		to, err = servers[0].moveCache(ctx, m.To)
	} else {
		to, err = m.moveOffline(ctx, o, t)
	}
	switch {
	case err != nil:
		return err
	case c.JSON:
		return printJSON(t.out, map[string]string{"dir": to})
	}
	_, err = fmt.Fprintf(t.out, "The cache is in %s.\n", to)
	return err
}

// moveOffline moves a cache that no server has open.
func (m *CacheMove) moveOffline(ctx context.Context, o cache.Options, t *terminal) (string, error) {
	if err := cache.FinishMove(o.Dir); err != nil {
		return "", problem.Wrap(problem.Internal, err,
			"An earlier move of the cache cannot be finished",
			"Make its old folder writable.")
	}
	if !cache.Exists(o.Dir) {
		return "", problem.New(problem.NotFound, "Nothing is cached in "+o.Dir+" yet", "",
			"Set the folder on the Settings or Cache page, or as dir under cache in the settings.")
	}
	mover, err := CacheFlags{}.mover(nil, service.OpenSettings())
	if err != nil {
		return "", err
	}
	mover.Current = func() (string, engine.BlockStoreLimits) {
		return o.Dir, engine.BlockStoreLimits{MaxBytes: o.Limits.MaxBytes,
			MinFreeBytes: o.Limits.MinFreeBytes}
	}
	mover.WithClosed = func(_ context.Context, do func() (string, error)) error {
		dir, err := do()
		if err != nil {
			return err
		}
		return cache.FinishMove(dir)
	}
	to := cache.Target(m.To)
	list := jobs.NewList()
	defer list.Close()
	job, err := watchJob(ctx, t.err, list, list.Start(mover.Job(to)).ID)
	if err != nil {
		fmt.Fprintf(t.err, "Stopped. The cache is still in %s; run the same command to resume.\n",
			o.Dir)
		return "", err
	}
	return cmp.Or(job.Result, to), job.Err
}

// moveCache asks the server to move its cache and waits for the end. If ctx ends first, it stops
// the move.
func (s runningServer) moveCache(ctx context.Context, dir string) (to string, err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	var begun control.CacheMove
	if err := s.send(ctx, freeTimeout, http.MethodPost, "control/cache/move",
		control.MoveRequest{Dir: dir}, &begun); err != nil {
		return "", err
	}
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		var list control.JobList
		if err := s.ask(ctx, askTimeout, http.MethodGet, "control/jobs", &list); err != nil &&
			ctx.Err() == nil {
			return "", problem.Wrap(problem.Internal, err,
				"The server at "+s.url+" does not report the move's progress",
				"Open the Cache page.")
		}
		for _, j := range list.Jobs {
			if j.ID == begun.Job && j.State.Ended() {
				return begun.Dir, jobError(j)
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			err := s.send(context.WithoutCancel(ctx), freeTimeout, http.MethodPost,
				"control/jobs/"+begun.Job+"/stop", nil, nil)
			return "", cmp.Or(err, ctx.Err())
		}
	}
}

// jobError returns why a job is not done, nil if it is.
func jobError(j control.Job) error {
	switch {
	case j.Error != nil:
		return problem.New(problem.Code(j.Error.Code), j.Error.Message, j.Error.Why, j.Error.Fix)
	case j.State != jobs.Done:
		return problem.New(problem.NotRunning, "The move was stopped",
			"the cache is still in its old folder",
			"Run the same command to resume.")
	}
	return nil
}
