// Package batch answers the requests of a file and writes the answers to another one, in the form
// of OpenAI's Batch API: one JSON object per line.
//
//	in   {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": {...}}
//	out  {"id": "...", "custom_id": "a", "response": {"status_code": 200, "request_id": "...",
//	     "body": {...}}, "error": null}
//
// The whole input is checked before the first request runs. Answers are written as they come, in
// any order. What an interrupted run has answered is kept: the next run with the same files answers
// the rest. The tokens of an answer do not depend on the others (see engine), so neither does it
// matter how often a run was interrupted.
package batch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"sync"

	"headroom/engine/problem"
)

// Endpoints are the addresses that a request of a batch may have.
var Endpoints = []string{"/v1/chat/completions", "/v1/completions", "/v1/responses",
	"/v1/embeddings"}

// Options configure Run. Handler is required.
type Options struct {
	Handler  http.Handler              // answers the requests
	Parallel int                       // requests that run or wait at once; 0: 16
	ModelFor func(named string) string // see Client
	// Progress is called after each request, from one goroutine at a time; nil: it is not.
	Progress func(Counts)
}

// Counts are numbers of requests.
type Counts struct {
	Total     int // in the input
	Before    int // answered by an earlier run, and kept
	Refused   int // of these, with an error that stays
	Completed int // answered by this run
	Failed    int // answered by this run with an error, and not among Completed
}

// Left returns how many requests are to be answered.
func (c Counts) Left() int { return c.Total - c.Before - c.Completed - c.Failed }

// Run answers the requests of the file in, and adds the answers to the file out. If ctx ends, it
// returns what it has done with ctx's error; the requests that ran are not answered. The error is a
// Problem.
func Run(ctx context.Context, in, out string, o Options) (Counts, error) {
	if o.Parallel <= 0 {
		o.Parallel = 16
	}
	if err := regular(in); err != nil {
		return Counts{}, err
	}
	input, err := os.Open(in)
	if err != nil {
		return Counts{}, unreadable(in, err)
	}
	defer input.Close()
	lineOf, err := check(input, func(Request, int) {})
	if err != nil {
		return Counts{}, err
	}
	file, answered, unlock, err := resume(in, out, lineOf)
	if err != nil {
		return Counts{}, err
	}
	defer unlock()
	if _, err := input.Seek(0, io.SeekStart); err != nil {
		return Counts{}, errors.Join(unreadable(in, err), file.Close())
	}
	r := &run{Options: o, counts: Counts{Total: len(lineOf)}, out: file,
		client: Client{Handler: o.Handler, ModelFor: o.ModelFor, Agent: "headroom batch"}}
	err = r.all(ctx, input, answered)
	if synced := errors.Join(file.Sync(), file.Close()); err == nil && synced != nil {
		err = notWritten(synced)
	}
	return r.counts, err
}

// run is a Run in progress.
type run struct {
	Options
	client Client
	mu     sync.Mutex
	counts Counts
	out    *os.File
	err    error // the first that a write returned
}

// all answers the requests of the input that are not answered.
func (r *run) all(ctx context.Context, input io.Reader, answered map[string]bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var working sync.WaitGroup
	free := make(chan struct{}, r.Parallel)
	lines := NewLines(input)
	for lines.Next() {
		q, why := Parse(lines.Line)
		if why != "" {
			cancel()
			working.Wait()
			return changed(lines.Number)
		}
		if ok, before := answered[q.CustomID]; before {
			r.note(func(c *Counts) {
				if c.Before++; !ok {
					c.Refused++
				}
			})
			continue
		}
		select {
		case free <- struct{}{}:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
		q.Body = bytes.Clone(q.Body)
		working.Go(func() {
			defer func() { <-free }()
			if r.one(ctx, q) != nil {
				cancel()
			}
		})
	}
	working.Wait()
	switch {
	case r.err != nil:
		return r.err
	case lines.Err != nil:
		return problem.Wrap(problem.BadRequest, lines.Err, "The batch cannot be read", "")
	}
	return ctx.Err()
}

// note changes the counts and reports them.
func (r *run) note(change func(*Counts)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.counts)
	if r.Progress != nil {
		r.Progress(r.counts)
	}
}

// write adds an answer to the output. After an error nothing more is written: the last line may be
// incomplete.
func (r *run) write(answer Result) error {
	line, err := json.Marshal(answer)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil && err == nil {
		_, err = r.out.Write(append(line, '\n'))
	}
	if r.err == nil && err != nil {
		r.err = notWritten(err)
	}
	return r.err
}

// one answers a request. Nothing is written if ctx has ended: the next run answers it.
func (r *run) one(ctx context.Context, q Request) error {
	answer, _ := r.client.Answer(ctx, q)
	if ctx.Err() != nil {
		return nil
	}
	if err := r.write(answer); err != nil {
		return err
	}
	r.note(func(c *Counts) {
		if answer.OK() {
			c.Completed++
		} else {
			c.Failed++
		}
	})
	return nil
}
