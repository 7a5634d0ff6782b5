package service

// Downloads that clients of the endpoint ask for. They are jobs like those of the control API, so
// that the Models page shows them, and can stop them.

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"headroom/app/control"
	"headroom/app/hub"
	"headroom/app/jobs"
	"headroom/engine/problem"
	"headroom/engine/server"
)

// puller downloads models; its method pull is for server.Options.
type puller struct {
	jobs *jobs.List
	// spec returns the job of a download. Its error is a Problem.
	spec func(id string) (jobs.Spec, error)
	// await waits until it is known which models are here; nil: it is.
	await func(ctx context.Context) error
	// known reports whether a request can name the model already.
	known func(name string) bool
	// list updates the list of models.
	list func()

	mu sync.Mutex
	// waiting has how many clients wait for a job, by its ID, if one of them has started it.
	waiting map[string]int
}

func (s *Service) newPuller(t *control.Transfers) *puller {
	return &puller{jobs: t.Jobs, list: s.Host.RescanModels, await: s.Host.AwaitStart,
		spec: func(id string) (jobs.Spec, error) {
			if err := hub.CheckID(id); err != nil {
				return jobs.Spec{}, err
			}
			client, err := t.Hub()
			if err != nil {
				return jobs.Spec{}, err
			}
			return client.JobWithin(hub.Request{ID: id}, pullPatience), nil
		},
		known: func(name string) bool {
			_, err := s.Host.Acquire(name)
			return err == nil || problem.From(err).Code != problem.ModelNotFound
		}}
}

// pullPatience is how long the hub may take for its first answer. The client of a pull waits.
const pullPatience = 20 * time.Second

// pullInterval is the time between two reports of progress.
const pullInterval = 500 * time.Millisecond

// pull implements server.Options.Pull. Nothing is downloaded if the model is here already. If ctx
// ends, so does the download, unless others wait for it or somebody has started it on the Models
// page; it keeps its files.
func (p *puller) pull(ctx context.Context, name string, report func(server.Progress) error) error {
	if p.await != nil {
		if err := p.await(ctx); err != nil {
			return err
		}
	}
	if p.known(name) {
		return nil
	}
	spec, err := p.spec(repository(name))
	if err != nil {
		return err
	}
	id := p.join(spec)
	job, err := p.follow(ctx, id, report)
	p.leave(id, err != nil)
	switch {
	case err != nil:
		return err
	case job.State == jobs.Failed:
		return job.Err
	case job.State == jobs.Stopped:
		return problem.New(problem.Cancelled, "The download of "+job.Title+" was stopped", "",
			"Ask for it again: it continues where it was.")
	}
	p.list()
	return nil
}

// join starts a job, or finds it if it runs already, and returns its ID. The caller calls leave
// once.
func (p *puller) join(spec jobs.Spec) (id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	runs := slices.ContainsFunc(p.jobs.Jobs(), func(j jobs.Job) bool {
		return j.Kind == spec.Kind && j.Title == spec.Title && !j.State.Ended()
	})
	id = p.jobs.Start(spec).ID
	if _, ours := p.waiting[id]; ours || !runs {
		if p.waiting == nil {
			p.waiting = map[string]int{}
		}
		p.waiting[id]++
	}
	return id
}

// leave ends the wait for a job. early says that the job may still run: then the last client of one
// that a client has started stops it.
func (p *puller) leave(id string, early bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ours := p.waiting[id]; !ours {
		return
	}
	if p.waiting[id]--; p.waiting[id] > 0 {
		return
	}
	delete(p.waiting, id)
	if early {
		_ = p.jobs.Stop(id) // it may have been removed
	}
}

// follow reports the progress of a job until it has ended, first at once. If ctx ends, or report
// returns an error, follow returns that error.
func (p *puller) follow(ctx context.Context, id string,
	report func(server.Progress) error) (jobs.Job, error) {
	if err := report(server.Progress{}); err != nil {
		return jobs.Job{ID: id}, err
	}
	for {
		soon, stop := context.WithTimeout(ctx, pullInterval)
		job, err := p.jobs.Wait(soon, id)
		stop()
		switch {
		case err == nil:
			return job, nil
		case job.ID == "": // somebody has removed it
			return jobs.Job{ID: id}, err
		case ctx.Err() != nil:
			return job, ctx.Err()
		}
		if err := report(server.Progress{File: job.File, DoneBytes: job.DoneBytes,
			TotalBytes: job.TotalBytes}); err != nil {
			return job, err
		}
	}
}

// repository returns the ID of a repository on the hub that a client of Ollama names, perhaps as
// hf.co/org/name:latest.
func repository(name string) string {
	name = strings.TrimSuffix(name, ":latest")
	for _, host := range []string{"https://", "hf.co/", "huggingface.co/"} {
		name = strings.TrimPrefix(name, host)
	}
	return name
}
