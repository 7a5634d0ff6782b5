package hub

// A whole model: the list of its files, room for them, the small ones side by side, then the large
// ones one after another, each over several connections. What a revision stands at changes last, so
// that until then other tools see what they saw before.

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"headroom/app/disk"
	"headroom/app/jobs"
	"headroom/engine/problem"
)

// Request says what to download.
type Request struct {
	ID       string `json:"id"`                 // "org/name"
	Revision string `json:"revision,omitempty"` // a branch, a tag or a commit; "": main
	// paths in the repository; nil: those that Choose chooses
	Files []string `json:"files,omitempty"`
}

// minFreeBytes is left on the disk.
const minFreeBytes = 1 << 30

// download is one on its way.
type download struct {
	client     *Client
	repository Repository
	layout     layout
	progress   *jobs.Progress
}

// Job is a download for a list of jobs. Its memo is the request.
func (c *Client) Job(q Request) jobs.Spec {
	var commit atomic.Value
	memo, err := json.Marshal(q)
	if err != nil {
		panic("hub: a request as JSON: " + err.Error()) // strings
	}
	return jobs.Spec{
		Kind: jobs.Download, Key: strings.Join(append([]string{q.ID, q.Revision}, q.Files...),
			"\x00"), Title: q.ID, Memo: memo,
		Work: func(ctx context.Context, p *jobs.Progress) (string, error) {
			return c.download(ctx, q, p, func(r Repository) { commit.Store(r.Commit) })
		},
		Discard: func() error {
			known, _ := commit.Load().(string)
			if err := c.layout(q.ID).discard(known); err != nil {
				return problem.Wrap(problem.Internal, err,
					"What was downloaded of "+q.ID+" could not be removed",
					"Remove it by hand: "+c.layout(q.ID).dir())
			}
			return nil
		},
	}
}

// Download brings a model to the cache and returns the folder of its snapshot. What a stopped one
// has fetched stays, and the next goes on from there. The error is a Problem, or ctx's.
func (c *Client) Download(ctx context.Context, q Request, p *jobs.Progress) (dir string,
	err error) {
	return c.download(ctx, q, p, func(Repository) {})
}

func (c *Client) download(ctx context.Context, q Request, p *jobs.Progress,
	known func(Repository)) (string, error) {
	p.Phase("asking the hub", "")
	r, err := c.repository(ctx, mostFailures, q.ID, q.Revision)
	if err != nil {
		return "", err
	}
	known(r)
	chosen, err := c.Needed(r)
	if q.Files != nil {
		chosen, err = Select(r.Files, q.Files)
	}
	if err != nil {
		return "", err
	}
	d := &download{client: c, repository: r, layout: c.layout(q.ID), progress: p}
	if err := d.all(ctx, chosen); err != nil {
		if disk.IsFull(err) {
			err = problem.Wrap(problem.DiskFull, err, "The disk is full",
				"Make room, then go on: what has come of "+q.ID+" is kept.")
		}
		return "", err
	}
	return d.layout.snapshot(r.Commit), nil
}

// Needed are the files of a repository that a model needs. The error is a Problem: it is none that
// is of use here.
func (c *Client) Needed(r Repository) ([]File, error) {
	if !c.Runs(r.ModelType) {
		return nil, problem.New(problem.UnknownArchitecture,
			"Headroom cannot run models of the kind \""+r.ModelType+"\" yet",
			"it runs "+strings.Join(c.options.Kinds, ", "), "Choose a model of one of these kinds.")
	}
	return Choose(r.Files)
}

func (d *download) all(ctx context.Context, files []File) error {
	if err := os.MkdirAll(d.layout.dir(), 0o755); err != nil {
		return problem.Wrap(problem.Internal, err, "The hub's cache cannot be written to",
			"Check who may write to "+d.client.options.Cache+".")
	}
	remotes := make([]*remote, len(files))
	err := d.together(ctx, len(files), func(ctx context.Context, i int) (err error) {
		remotes[i], err = d.client.locate(ctx, d.repository, files[i])
		return err
	})
	if err != nil {
		return err
	}
	if err := d.room(remotes); err != nil {
		return err
	}
	large := slices.DeleteFunc(slices.Clone(remotes),
		func(m *remote) bool { return m.Size <= d.client.options.PartBytes })
	small := slices.DeleteFunc(remotes,
		func(m *remote) bool { return m.Size > d.client.options.PartBytes })
	if err := d.together(ctx, len(small),
		func(ctx context.Context, i int) error { return d.file(ctx, small[i]) }); err != nil {
		return err
	}
	for _, m := range large {
		if err := d.file(ctx, m); err != nil {
			return err
		}
	}
	return d.layout.refer(d.repository.Revision, d.repository.Commit)
}

// together does n things, a few at once, until one fails.
func (d *download) together(ctx context.Context, n int,
	do func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(d.client.options.Connections, n) {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				if err := do(ctx, i); err != nil {
					cancel(err) // the first counts: the others fail for its sake
				}
			}
		})
	}
	workers.Wait()
	return context.Cause(ctx)
}

// room says how much there is to do, and checks that the disk takes what is missing.
func (d *download) room(remotes []*remote) error {
	total, missing := int64(0), int64(0)
	seen := map[string]bool{}
	for _, m := range remotes {
		total += max(m.Size, 0)
		if seen[m.etag] || d.whole(m) {
			continue
		}
		seen[m.etag] = true
		missing += max(m.Size, 0)
		if info, err := os.Stat(d.layout.incomplete(m.etag)); err == nil {
			missing -= min(info.Size(), max(m.Size, 0))
		}
	}
	d.progress.Total(total)
	free, err := d.client.options.free(d.layout.dir())
	if err != nil || missing == 0 || free-missing >= minFreeBytes {
		return nil
	}
	return problem.New(problem.DiskFull, "There is no room for "+d.repository.ID,
		fmt.Sprintf("%.1f GB are missing, %.1f GB are free on the disk, and 1 GB is left free",
			float64(missing)/1e9, float64(free)/1e9),
		"Make room in "+filepath.Clean(d.client.options.Cache)+
			", or have HF_HUB_CACHE name a folder on another disk.")
}

// counter counts bytes that have come but may never be written.
type counter struct {
	progress interface{ Add(int64) }
	before   int64 // in the file when it began
	came     atomic.Int64
}

func newCounter(w *writer) *counter { return &counter{progress: w.progress, before: w.have} }

func (c *counter) add(n int) {
	c.came.Add(int64(n))
	c.progress.Add(int64(n))
}

// settle takes back what has come and was not written.
func (c *counter) settle(w *writer) {
	if lost := c.came.Load() - (w.have - c.before); lost != 0 {
		c.progress.Add(-lost)
	}
}
