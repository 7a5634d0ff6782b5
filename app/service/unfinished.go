package service

// Imports, downloads, cache moves and trainings that an earlier run left unfinished are listed
// again as stopped. The user can resume or remove them.

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

// jobsFile is the name of the file of unfinished jobs, in the settings folder.
const jobsFile = "jobs.json"

// uploadsFile is the name of the file of unfinished uploads; see package hub.
const uploadsFile = "uploads.json"

// damagedLabel is in the name of a file of jobs that was set aside.
const damagedLabel = "damaged"

// KeepJobs adds the unfinished jobs in dir/jobs.json to the list, and keeps the file current until
// the returned function is called. If another program already does this for the folder, KeepJobs
// does nothing: otherwise both could resume the same job. A file that cannot be read is renamed to
// jobs.json.damaged-1, or 2 if that exists, and so on.
func KeepJobs(dir string, list *jobs.List, t *control.Transfers) (end func()) {
	path := filepath.Join(dir, jobsFile)
	lock, err := disk.TryLock(path+".lock", 0o600)
	if err != nil {
		slog.Debug("unfinished jobs are not saved: another program may save them", "err", err)
		return func() {}
	}
	kept, err := jobs.ReadKept(path)
	if err != nil {
		aside, failed := disk.SetAside(path, damagedLabel)
		if failed != nil {
			slog.Warn("unfinished jobs can be neither read nor saved: move the file away", "err",
				errors.Join(err, failed))
			lock.Unlock()
			return func() {}
		}
		slog.Warn("unfinished jobs cannot be read: start them again to resume them", "err", err,
			"setAside", aside)
	}
	for _, k := range kept {
		if spec, err := specOf(k, t); errors.Is(err, errEnded) {
			slog.Info("the cache has moved", "dir", k.Title)
		} else if err != nil {
			slog.Warn("an unfinished job cannot be resumed", "title", k.Title, "err", err)
		} else {
			spec.TotalBytes = k.TotalBytes
			list.Recall(spec, k.DoneBytes)
		}
	}
	stop := list.Keep(path, func(err error) {
		slog.Warn("unfinished jobs cannot be saved for the next start", "err", err)
	})
	return func() {
		stop()
		lock.Unlock()
	}
}

// errEnded means that a saved job is already complete.
var errEnded = errors.New("the job has ended")

// specOf returns the Spec of a saved job.
func specOf(k jobs.Kept, t *control.Transfers) (jobs.Spec, error) {
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
		return im.Recreate(m), nil
	case jobs.Cache:
		var m cache.MoveMemo
		if err := json.Unmarshal(k.Memo, &m); err != nil {
			return jobs.Spec{}, err
		}
		mover, err := t.Mover()
		if err != nil {
			return jobs.Spec{}, err
		}
		if now, _ := mover.Current(); now == m.To {
			return jobs.Spec{}, errEnded
		}
		return mover.Job(m.To), nil
	case jobs.Training:
		if t.Trainer != nil {
			return t.Trainer.Recreate(k.Memo)
		}
	}
	return jobs.Spec{}, fmt.Errorf("unknown kind of job %q", k.Kind)
}
