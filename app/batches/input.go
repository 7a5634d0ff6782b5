package batches

// Reading the lines of an input file. The memory for them is bounded: only the batch whose turn it
// is reads a line, and it has a slot for it by then. A request that waits to be sent again keeps
// only the place of its line.

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"

	"headroom/app/batch"
	"headroom/engine/problem"
)

// slotBytes is the length of a line that needs another slot. So the lines in memory have at most
// the bytes of all slots and one line more.
const slotBytes = batch.MaxLineBytes / 4

// idHash identifies a custom_id. There may be 50,000 of them, each of 512 bytes.
type idHash [16]byte

func hashOf(id string) idHash {
	sum := sha256.Sum256([]byte(id))
	return idHash(sum[:16])
}

// place says where a line begins. The zero value is the beginning of the file.
type place struct {
	bytes int64 // before it
	lines int   // before it
}

// input reads the lines of a file from a place on.
type input struct {
	*batch.Lines
	file *reader
}

// openInput opens the input of the batch.
func (r *run) openInput(from place) (*input, error) {
	file, err := open(r.s.path(r.b.InputFileID), r.key, r.b.InputFileID)
	if err == nil {
		if err = file.skip(from.bytes); err != nil {
			file.close()
		}
	}
	if err != nil {
		return nil, unreadableInput(err)
	}
	return &input{batch.LinesAt(file, from.bytes, from.lines), file}, nil
}

func unreadableInput(err error) error {
	return problem.Wrap(problem.Internal, err, "The input file cannot be read", "")
}

// unanswered reads the next request that is not answered yet. Its body is valid until the next
// call. ok is false at the end.
func (r *run) unanswered(in *input, yield func() error) (q batch.Request, at place, ok bool,
	err error) {
	for in.Next() {
		if err := yield(); err != nil {
			return q, at, false, err
		}
		q, why := batch.Parse(in.Line)
		if why != "" {
			return q, at, false, problem.New(problem.Internal, "The input file has changed",
				fmt.Sprintf("line %d: %s", in.Number, why), "")
		}
		r.mu.Lock()
		done := r.answered[hashOf(q.CustomID)]
		r.mu.Unlock()
		if !done {
			return q, place{in.At, in.Number - 1}, true, nil
		}
	}
	if in.Err != nil {
		return q, at, false, unreadableInput(in.Err)
	}
	return q, at, false, nil
}

// job is a request of the batch. While it has no slots it has no body.
type job struct {
	batch.Request
	at    place
	slots int
}

// next takes a slot and reads the next request that is not answered; nil: there is none. The caller
// must drop the job.
func (r *run) next(ctx context.Context, in *input) (j *job, err error) {
	return r.read(ctx, &job{}, func(j *job) (ok bool, err error) {
		j.Request, j.at, ok, err = r.unanswered(in, ctx.Err)
		if !ok || err != nil {
			return false, err
		}
		j.Body = slices.Clone(j.Body)
		in.Drop()
		return true, nil
	})
}

// again takes a slot and reads the request of a job again.
func (r *run) again(ctx context.Context, j *job) error {
	read, err := r.read(ctx, j, func(j *job) (ok bool, err error) {
		in, err := r.openInput(j.at)
		if err != nil {
			return false, err
		}
		defer in.file.close()
		j.Request, _, ok, err = r.unanswered(in, ctx.Err)
		return ok, err // the memory of in is the job's now
	})
	if err == nil && read == nil {
		err = unreadableInput(errDamaged)
	}
	return err
}

// read takes a slot for j and reads it. If it is long, it takes more slots. The error may be that
// of ctx.
func (r *run) read(ctx context.Context, j *job, do func(*job) (ok bool, err error)) (*job, error) {
	s := r.s
	if err := take(ctx, s.turn); err != nil { // batches that wait are served in order
		return nil, err
	}
	defer func() { <-s.turn }()
	if err := take(ctx, s.slots); err != nil {
		return nil, err
	}
	j.slots = 1
	ok, err := do(j)
	for err == nil && ok && j.slots < min(1+len(j.Body)/s.o.slotBytes, cap(s.slots)) {
		if err = take(ctx, s.slots); err == nil {
			j.slots++
		}
	}
	if err != nil || !ok {
		r.drop(j)
		return nil, err
	}
	return j, nil
}

// drop gives back what a job has taken.
func (r *run) drop(j *job) {
	for ; j.slots > 0; j.slots-- {
		<-r.s.slots
	}
	j.Request = batch.Request{}
}

// take takes a place of a channel. The error is why ctx has ended.
func take(ctx context.Context, places chan struct{}) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	select {
	case places <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
