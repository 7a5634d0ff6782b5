package hub

// Downloading a model: list its files, check the space, download the small files concurrently, then
// the large ones one after another, each over several connections. The ref of the revision changes
// last, so that other tools see the old snapshot until then.

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
	"time"

	"headroom/app/disk"
	"headroom/app/jobs"
	"headroom/engine/problem"
)

// Request selects what to download.
type Request struct {
	ID       string   `json:"id"`                 // "org/name"
	Revision string   `json:"revision,omitempty"` // a branch, a tag or a commit; "": main
	Files    []string `json:"files,omitempty"`    // paths in the repository; nil: those of Choose
}

// minFreeBytes is the disk space that a download leaves free.
const minFreeBytes = 1 << 30

// download is a running download.
type download struct {
	client     *Client
	repository Repository
	layout     layout
	progress   *jobs.Progress
}

// Job returns the job of a download. Its Memo is the Request.
func (c *Client) Job(q Request) jobs.Spec { return c.JobWithin(q, 0) }

// JobWithin is like Job, but gives up soon if the hub does not answer: after a few tries, or after
// the time first without its first answer. 0 means the patience of a download.
func (c *Client) JobWithin(q Request, first time.Duration) jobs.Spec {
	var commit atomic.Value
	memo, err := json.Marshal(q)
	if err != nil {
		panic("hub: a request as JSON: " + err.Error()) // cannot happen for strings
	}
	return jobs.Spec{
		Kind:  jobs.Download,
		Key:   strings.Join(append([]string{q.ID, q.Revision}, q.Files...), "\x00"),
		Title: q.ID, Memo: memo,
		Work: func(ctx context.Context, p *jobs.Progress) (string, error) {
			return c.download(ctx, q, p, first,
				func(r Repository) { commit.Store(r.Commit) })
		},
		Discard: func() error {
			known, _ := commit.Load().(string)
			if err := c.layout(q.ID).discard(known); err != nil {
				return problem.Wrap(problem.Internal, err,
					"The unfinished download of "+q.ID+" could not be removed",
					"Remove it by hand: "+c.layout(q.ID).dir())
			}
			return nil
		},
	}
}

// Download downloads a model into the cache and returns the folder of its snapshot. A download that
// is stopped keeps its files, and the next one resumes it. The error is a Problem, or ctx's.
func (c *Client) Download(ctx context.Context, q Request, p *jobs.Progress) (dir string,
	err error) {
	return c.download(ctx, q, p, 0, func(Repository) {})
}

// firstAnswer asks for the repository of a download; see JobWithin.
func (c *Client) firstAnswer(ctx context.Context, q Request, within time.Duration) (Repository,
	error) {
	if within == 0 {
		return c.repository(ctx, maxFailures, q.ID, q.Revision)
	}
	soon, stop := context.WithTimeout(ctx, within)
	defer stop()
	r, err := c.repository(soon, fewFailures, q.ID, q.Revision)
	if err != nil && soon.Err() != nil && ctx.Err() == nil {
		err = problem.New(problem.Upstream, "The hub does not answer",
			"it was asked for "+q.ID+" and sent nothing within "+within.String(),
			"Check the connection to "+c.Endpoint()+", then try again.")
	}
	return r, err
}

// download is like Download. It calls known once it knows the repository's commit. first is that of
// JobWithin.
func (c *Client) download(ctx context.Context, q Request, p *jobs.Progress, first time.Duration,
	known func(Repository)) (string, error) {
	p.Phase("asking the hub", "")
	r, err := c.firstAnswer(ctx, q, first)
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
				"Free some space, then resume: what was downloaded of "+q.ID+" is kept.")
		}
		return "", err
	}
	return d.layout.snapshot(r.Commit), nil
}

// Needed returns the files of a repository that its model needs. The error is a Problem: Headroom
// cannot run the model.
func (c *Client) Needed(r Repository) ([]File, error) {
	if !c.Runs(r.ModelType) {
		return nil, problem.Architecture(r.ModelType, c.options.Architectures)
	}
	return Choose(r.Files)
}

// all downloads the files into the snapshot and sets the revision's ref to it.
func (d *download) all(ctx context.Context, files []File) error {
	if err := os.MkdirAll(d.layout.dir(), 0o755); err != nil {
		return problem.Wrap(problem.Internal, err, "The hub's cache cannot be written",
			"Check the permissions of "+d.client.options.Cache+".")
	}
	remotes := make([]*remote, len(files))
	err := d.client.concurrently(ctx, len(files), func(ctx context.Context, i int) (err error) {
		remotes[i], err = d.client.locate(ctx, d.repository, files[i])
		return err
	})
	if err != nil {
		return err
	}
	if err := d.checkSpace(remotes); err != nil {
		return err
	}
	large := slices.DeleteFunc(slices.Clone(remotes),
		func(m *remote) bool { return m.Size <= d.client.options.PartBytes })
	small := slices.DeleteFunc(remotes,
		func(m *remote) bool { return m.Size > d.client.options.PartBytes })
	err = d.client.concurrently(ctx, len(small),
		func(ctx context.Context, i int) error { return d.file(ctx, small[i]) })
	if err != nil {
		return err
	}
	for _, m := range large {
		if err := d.file(ctx, m); err != nil {
			return err
		}
	}
	if err := d.layout.setRef(d.repository.Revision, d.repository.Commit); err != nil {
		return err
	}
	_ = os.Remove(d.layout.record(d.repository.Commit))
	return nil
}

// concurrently calls do for 0 to n-1 on a few goroutines, until one call fails.
func (c *Client) concurrently(ctx context.Context, n int,
	do func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(c.options.Connections, n) {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				if err := do(ctx, i); err != nil {
					cancel(err) // only the first error counts
				}
			}
		})
	}
	workers.Wait()
	return context.Cause(ctx)
}

// checkSpace reports the total to progress, and checks that the disk has space for the missing
// bytes.
func (d *download) checkSpace(remotes []*remote) error {
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
	return problem.New(problem.DiskFull, "There is not enough space for "+d.repository.ID,
		fmt.Sprintf("%.1f GB are needed, %.1f GB are free on the disk, and 1 GB stays free",
			float64(missing)/1e9, float64(free)/1e9),
		"Free some space on the disk of "+filepath.Clean(d.client.options.Cache)+
			", or set HF_HUB_CACHE to a folder on another disk.")
}

// counter counts received bytes in progress at once, before they are written.
type counter struct {
	progress interface{ Add(int64) }
	before   int64 // bytes in the file at the start
	received atomic.Int64
}

func newCounter(w *writer) *counter { return &counter{progress: w.progress, before: w.have} }

func (c *counter) add(n int) {
	c.received.Add(int64(n))
	c.progress.Add(int64(n))
}

// settle subtracts from progress the bytes that were received but not written.
func (c *counter) settle(w *writer) {
	if lost := c.received.Load() - (w.have - c.before); lost != 0 {
		c.progress.Add(-lost)
	}
}
