package commands

// Imports, downloads and moves of the cache that an earlier run has left unfinished are listed
// again, stopped, to be gone on with or removed.

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"headroom/app/cache"
	"headroom/app/control"
	"headroom/app/disk"
	"headroom/app/hub"
	"headroom/app/importer"
	"headroom/app/jobs"
)

// keepJobs lists what the file in the folder has, and keeps it up to date until the returned
// function is called. Of several programs over one folder the first alone does: two would go on
// with the same work.
func keepJobs(dir string, list *jobs.List, t *control.Transfers) (end func()) {
	path := filepath.Join(dir, "jobs.json")
	lock, err := disk.TryLock(path + ".lock")
	if err != nil {
		slog.Debug("unfinished downloads are another program's, or cannot be kept", "err", err)
		return func() {}
	}
	kept, err := jobs.ReadKept(path)
	if err != nil {
		slog.Warn("unfinished imports and downloads cannot be read: start them again, they go on",
			"err", err)
	}
	for _, k := range kept {
		if spec, err := again(k, t); errors.Is(err, errEnded) {
			slog.Info("the cache has moved", "dir", k.Title)
		} else if err != nil {
			slog.Warn("an unfinished job is forgotten", "title", k.Title, "err", err)
		} else {
			spec.TotalBytes = k.TotalBytes
			list.Recall(spec, k.DoneBytes)
		}
	}
	stop := list.Keep(path, func(err error) {
		slog.Warn("unfinished imports and downloads cannot be kept over a restart", "err", err)
	})
	return func() {
		stop()
		lock.Unlock()
	}
}

// errEnded says that a job which was kept has done all it had to.
var errEnded = errors.New("the job has ended")

// again makes the work of a job that was kept.
func again(k jobs.Kept, t *control.Transfers) (jobs.Spec, error) {
	switch k.Kind {
	case jobs.Download:
		var q hub.Request
		if err := json.Unmarshal(k.Memo, &q); err != nil {
			return jobs.Spec{}, err
		}
		if err := hub.CheckID(q.ID); err != nil {
			return jobs.Spec{}, err
		}
		c, err := t.Hub()
		if err != nil {
			return jobs.Spec{}, err
		}
		return c.Job(q), nil
	case jobs.Import:
		var m importer.Memo
		if err := json.Unmarshal(k.Memo, &m); err != nil {
			return jobs.Spec{}, err
		}
		im, err := t.Importer()
		if err != nil {
			return jobs.Spec{}, err
		}
		return im.Again(m), nil
	case jobs.Cache:
		var m cache.MoveMemo
		if err := json.Unmarshal(k.Memo, &m); err != nil {
			return jobs.Spec{}, err
		}
		mover, err := t.Mover()
		if err != nil {
			return jobs.Spec{}, err
		}
		if now, _ := mover.Now(); now == m.To {
			return jobs.Spec{}, errEnded
		}
		return mover.Job(m.To), nil
	}
	return jobs.Spec{}, fmt.Errorf("there is no kind %q of job", k.Kind)
}
