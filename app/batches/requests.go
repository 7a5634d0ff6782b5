package batches

// Answering the requests of a batch. A request that the model cannot take gives back its slot, and
// comes again after a pause.

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"headroom/app/batch"
	"headroom/engine/guard"
	"headroom/engine/problem"
)

// requests answers what is not answered yet. Its error is why not all is.
func (r *run) requests() error {
	s := r.s
	left := time.Unix(r.b.ExpiresAt, 0).Sub(s.o.now())
	ctx, end := context.WithTimeoutCause(r.ctx, left, errExpired)
	defer end()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	from, err := r.begin(ctx)
	if err != nil {
		return err
	}
	in, err := r.openInput(from)
	if err != nil {
		return err
	}
	defer in.file.close()
	var working sync.WaitGroup
	mine := make(chan struct{}, s.o.Workers) // those that have a slot, or wait to be sent again
	for {
		if err = take(ctx, mine); err != nil {
			break
		}
		var j *job
		if j, err = r.next(ctx, in); j == nil {
			break
		}
		working.Go(func() {
			defer func() { <-mine }()
			if err := r.one(ctx, j); err != nil {
				stop(err)
			}
		})
	}
	working.Wait()
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// begin returns the place of the first request that is not answered, which may be far in the file
// after a restart.
func (r *run) begin(ctx context.Context) (first place, err error) {
	if len(r.answered) == 0 || ctx.Err() != nil {
		return first, nil
	}
	err = r.inSpare(ctx, func(yield func() error) error {
		in, err := r.openInput(first)
		if err != nil {
			return err
		}
		defer in.file.close()
		_, at, ok, err := r.unanswered(in, yield)
		if !ok { // the last line, which is answered
			at = place{in.At, in.Number - 1}
		}
		first = at
		return err
	})
	return first, err
}

// fillUp writes an error for each request that is not answered, because of the reason why.
func (r *run) fillUp(code string, why error) error {
	return r.inSpare(r.s.ctx, func(yield func() error) error {
		in, err := r.openInput(place{})
		if err != nil {
			return err
		}
		defer in.file.close()
		for {
			q, _, ok, err := r.unanswered(in, yield)
			if !ok || err != nil {
				return err
			}
			answer := batch.NewResult(q)
			answer.Error = &batch.Failure{Code: code,
				Message: "This request was not answered: " + why.Error() + "."}
			if err := r.write(answer); err != nil {
				return err
			}
		}
	})
}

// inSpare calls do when this batch has its turn of the spare time. do calls yield often.
func (r *run) inSpare(ctx context.Context, do func(yield func() error) error) error {
	share, err := r.s.spare.Take(ctx)
	if err != nil {
		return context.Cause(ctx)
	}
	defer share.Give()
	return do(share.Yield)
}

// one answers a request, and sends it again while the model cannot take it. Nothing is written if
// ctx has ended. It drops the job.
func (r *run) one(ctx context.Context, j *job) error {
	const tries = 5
	pause := r.s.o.firstPause
	defer func() { r.drop(j) }()
	for n := 1; ; n++ {
		answer, after, err := r.ask(ctx, j.Request)
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return nil
		}
		switch again := again(answer); {
		case again == never, again == sometimes && n >= tries:
			return r.write(answer)
		}
		r.drop(j)
		timer := time.NewTimer(max(after, pause))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil
		}
		if err := r.again(ctx, j); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		pause = min(2*pause, 60*r.s.o.firstPause)
	}
}

// ask sends a request once.
func (r *run) ask(ctx context.Context, q batch.Request) (answer batch.Result,
	retryAfter time.Duration, err error) {
	ctx = guard.Background(ctx)
	if r.b.Owner != "" {
		var caller *guard.Caller
		if r.s.o.Caller != nil {
			caller = r.s.o.Caller(r.b.Owner)
		}
		if caller == nil {
			return answer, 0, errKeyRemoved
		}
		ctx = guard.WithCaller(ctx, caller)
	}
	client := batch.Client{Handler: r.answer, Agent: "headroom batches"}
	answer, retryAfter = client.Answer(ctx, q)
	return answer, retryAfter, nil
}

// repetition says how often a request is sent again.
type repetition uint8

const (
	never     repetition = iota
	sometimes            // it may be the request's fault
	always               // the model is busy, is being loaded, or does not run
)

func again(a batch.Result) repetition {
	switch {
	case a.Response == nil:
		return never
	case a.Response.StatusCode == http.StatusTooManyRequests,
		a.Response.StatusCode == http.StatusServiceUnavailable:
		return always
	case a.Response.StatusCode > http.StatusUnavailableForLegalReasons:
		return sometimes
	}
	return never
}

// write adds an answer to its output file, and counts it.
func (r *run) write(answer batch.Result) error {
	line, err := json.Marshal(answer)
	if err == nil && len(line) >= recordBytes {
		answer.Response, answer.Error = nil, &batch.Failure{Code: "too_large",
			Message: fmt.Sprintf("The answer has %d bytes.", len(line))}
		line, err = json.Marshal(answer)
	}
	if err != nil {
		return problem.Wrap(problem.Internal, err, "An answer cannot be written", "")
	}
	r.mu.Lock()
	w := r.faults
	if answer.OK() {
		w = r.out
	}
	_, err = w.Write(append(line, '\n'))
	r.answered[hashOf(answer.CustomID)] = true
	r.mu.Unlock()
	if err != nil {
		return unwritable(err)
	}
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	if answer.OK() {
		r.b.RequestCounts.Completed++
	} else {
		r.b.RequestCounts.Failed++
	}
	return nil
}
