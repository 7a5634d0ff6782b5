package batches

// The life of a batch. Its input is validated, its requests are answered, and its output files come
// into the list of files. It begins anew at each start of the server: what the output files have is
// not computed again.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"sync"

	"headroom/app/batch"
	"headroom/engine/generate"
	"headroom/engine/problem"
	"headroom/engine/seal"
)

// Why a batch ends before all of its requests are answered.
var (
	errCancelled  = errors.New("the batch was cancelled")
	errExpired    = errors.New("the completion window has expired")
	errKeyRemoved = errors.New("the API key of the batch was removed")
)

// run is a batch that is being answered.
type run struct {
	s      *Store
	b      *storedBatch // Store.mu guards it, but for the fields that do not change
	key    seal.Key
	answer http.Handler
	ctx    context.Context
	cancel context.CancelCauseFunc

	mu          sync.Mutex
	out, faults *writer
	answered    map[idHash]bool // custom_ids
}

// create adds a batch and starts it.
func (s *Store) create(owner string, q newBatch) (Batch, error) {
	return opened(s, func() (Batch, error) {
		f, err := s.file(owner, q.InputFileID)
		if err != nil {
			return Batch{}, badParam("input_file_id", "there is no file %.80q", q.InputFileID)
		}
		if f.Purpose != purposeInput {
			return Batch{}, badParam("input_file_id", "the file has the purpose %q, expected %q",
				f.Purpose, purposeInput)
		}
		if err := s.roomForBatch(owner, q.metadata); err != nil {
			return Batch{}, err
		}
		b := s.newBatch(owner, q)
		if err := s.saveNew(); err != nil {
			s.index.Batches = s.index.Batches[:len(s.index.Batches)-1]
			s.index.Files = s.index.Files[:len(s.index.Files)-2]
			return Batch{}, err
		}
		s.launch(b)
		return b.copied(), nil
	})
}

// roomForBatch returns a Problem if an owner, or all of them, may not have another batch. The
// caller holds mu.
func (s *Store) roomForBatch(owner string, metadata map[string]string) error {
	unfinished, ownUnfinished, own, bytes := 0, 0, 0, metadataBytes(metadata)
	for _, b := range s.index.Batches {
		if !b.Status.ended() {
			unfinished++
		}
		if b.Owner == owner {
			own++
			bytes += metadataBytes(b.Metadata)
			if !b.Status.ended() {
				ownUnfinished++
			}
		}
	}
	of, limit := "an API key", ""
	switch {
	case own >= maxBatches:
		limit = fmt.Sprintf("may have %d of the last 31 days", maxBatches)
	case ownUnfinished >= maxOwnUnfinished:
		limit = fmt.Sprintf("may have %d that are unfinished", maxOwnUnfinished)
	case unfinished >= maxUnfinished:
		of, limit = "all API keys together", fmt.Sprintf("may have %d that are unfinished",
			maxUnfinished)
	case bytes > maxMetadataBytes:
		limit = "may have metadata of " + problem.Memory(maxMetadataBytes) + " in all of them"
	default:
		return nil
	}
	return problem.New(problem.Busy, "There are too many batches", of+" "+limit,
		"Wait until some have ended.")
}

// metadataBytes returns the length of texts in an index, at most.
func metadataBytes(texts map[string]string) (n int) {
	for name, value := range texts {
		n += 6 * (len(name) + len(value))
	}
	return n
}

// newBatch adds a batch and its output files to the index. The caller holds mu.
func (s *Store) newBatch(owner string, q newBatch) *storedBatch {
	now := s.o.now()
	b := &storedBatch{Owner: owner, Batch: Batch{ID: generate.NewID("batch_"), Object: "batch",
		Endpoint: q.Endpoint, InputFileID: q.InputFileID, CompletionWindow: q.CompletionWindow,
		Status: validating, CreatedAt: now.Unix(), ExpiresAt: now.Add(window).Unix(),
		Metadata: q.metadata}}
	for kind, id := range map[string]*string{"output": &b.Output, "error": &b.Faults} {
		f := s.newFile(owner, b.ID+"_"+kind+".jsonl", purposeOutput)
		f.Batch, *id = b.ID, f.ID
		s.index.Files = append(s.index.Files, f)
	}
	s.index.Batches = append(s.index.Batches, b)
	return b
}

// launch starts a batch that has not ended. The caller holds mu.
func (s *Store) launch(b *storedBatch) {
	if s.answer == nil || s.closed || b.Status.ended() || s.runs[b.ID] != nil {
		return
	}
	r := &run{s: s, b: b, key: s.key, answer: s.answer, answered: map[idHash]bool{}}
	r.ctx, r.cancel = context.WithCancelCause(s.ctx)
	if b.Status == cancelling {
		r.cancel(errCancelled)
	}
	s.runs[b.ID] = r
	s.working.Go(func() {
		r.all()
		r.cancel(nil)
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.runs, b.ID)
	})
}

// batchOf returns a batch that its owner may see. The caller holds mu.
func (s *Store) batchOf(owner, id string) (*storedBatch, error) {
	i := slices.IndexFunc(s.index.Batches,
		func(b *storedBatch) bool { return b.ID == id && b.Owner == owner })
	if i < 0 {
		return nil, problem.New(problem.NotFound, fmt.Sprintf("There is no batch %.80q", id),
			"batches belong to the API key that has made them", "")
	}
	return s.index.Batches[i], nil
}

// getBatch returns a batch.
func (s *Store) getBatch(owner, id string) (Batch, error) {
	return opened(s, func() (Batch, error) {
		b, err := s.batchOf(owner, id)
		if err != nil {
			return Batch{}, err
		}
		return b.copied(), nil
	})
}

// batches returns the batches of an owner.
func (s *Store) batches(owner string, p paging) (List, error) {
	return opened(s, func() (List, error) {
		list := []Batch{}
		for _, b := range s.index.Batches {
			if b.Owner == owner {
				list = append(list, b.copied())
			}
		}
		return page(p, list, func(b Batch) string { return b.ID })
	})
}

// cancel ends a batch. Its requests that are being answered are not.
func (s *Store) cancel(owner, id string) (Batch, error) {
	return opened(s, func() (Batch, error) {
		b, err := s.batchOf(owner, id)
		if err != nil {
			return Batch{}, err
		}
		switch b.Status {
		case cancelling, cancelled:
			return b.copied(), nil
		case validating, inProgress:
		default:
			return Batch{}, problem.New(problem.Exists, "The batch cannot be cancelled",
				"its status is "+string(b.Status), "")
		}
		before := b.Status
		b.set(cancelling, s.o.now())
		if err := s.save(); err != nil {
			b.Status, b.CancellingAt = before, nil
			return Batch{}, err
		}
		if r := s.runs[id]; r != nil {
			r.cancel(errCancelled)
		}
		return b.copied(), nil
	})
}

// all is the life of the batch, as far as it is not over. If the server is closing, it returns
// early.
func (r *run) all() {
	s := r.s
	if !r.validated() && !r.validate() {
		return
	}
	err := r.openOutputs()
	if err == nil {
		err = r.requests()
	}
	if s.ctx.Err() != nil {
		_ = r.closeOutputs()
		return
	}
	end, code := completed, ""
	switch {
	case errors.Is(err, errCancelled):
		end, code = cancelled, "batch_cancelled"
	case errors.Is(err, errExpired):
		end, code = expired, "batch_expired"
	case err != nil:
		end = failed
	}
	if code != "" {
		err = r.fillUp(code, err)
		if s.ctx.Err() != nil {
			_ = r.closeOutputs()
			return
		}
	}
	if end == completed {
		r.change(func(b *storedBatch) { b.set(finalizing, s.o.now()) })
	}
	if closed := r.closeOutputs(); err == nil {
		err = closed
	}
	r.change(func(b *storedBatch) {
		if err != nil {
			end = failed
			b.Errors = &Errors{Object: "list", Data: []LineError{{Code: codeOf(err),
				Message: shortened(problem.From(err).Error())}}}
		}
		s.publish(b, b.Output, &b.OutputFileID, r.out)
		s.publish(b, b.Faults, &b.ErrorFileID, r.faults)
		b.set(end, s.o.now())
	})
	s.o.Log.Info("a batch has ended", "batch", r.b.ID, "status", end)
}

func codeOf(err error) string {
	if errors.Is(err, errKeyRemoved) {
		return "invalid_api_key"
	}
	return string(problem.From(err).Code)
}

// validated reports whether the lines of the input are known to be requests.
func (r *run) validated() bool {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	return r.b.Validated || r.b.InProgressAt != nil
}

// change changes the batch and writes the index.
func (r *run) change(do func(*storedBatch)) {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	do(r.b)
	if err := r.s.save(); err != nil {
		r.s.o.Log.Error("the state of a batch is not saved", "batch", r.b.ID, "err", err)
	}
}

// publish makes an output file visible, or removes it if it is empty. The caller holds mu.
func (s *Store) publish(b *storedBatch, id string, visible **string, w *writer) {
	f := s.index.file(id)
	switch {
	case f == nil:
	case w == nil || w.bytes == 0:
		s.destroyed(id)
		s.index.Files = slices.DeleteFunc(s.index.Files,
			func(o *storedFile) bool { return o == f })
	default:
		now := s.o.now()
		f.Batch, f.Bytes, *visible = "", w.bytes, &f.ID
		f.CreatedAt, f.ExpiresAt = now.Unix(), now.Add(keepTime).Unix()
	}
}

// validate checks the input and reports whether the batch goes on. It does so for a batch that was
// cancelled, too: its requests must be known to say of each that it was not answered.
func (r *run) validate() bool {
	total, errs := 0, []LineError(nil)
	err := r.inSpare(r.s.ctx, func(yield func() error) error {
		file, err := open(r.s.path(r.b.InputFileID), r.key, r.b.InputFileID)
		if err != nil {
			errs = []LineError{{Code: "file_missing", Message: "The input file cannot be read."}}
			return nil
		}
		defer file.close()
		total, errs, err = validate(file, r.b.Endpoint, yield)
		return err
	})
	if err != nil { // the server is closing
		return false
	}
	goesOn := len(errs) == 0
	r.change(func(b *storedBatch) {
		if goesOn {
			b.RequestCounts.Total, b.Validated = total, true
			if b.Status == validating { // and not cancelling
				b.set(inProgress, r.s.o.now())
			}
			return
		}
		b.Errors = &Errors{Object: "list", Data: errs}
		r.s.publish(b, b.Output, &b.OutputFileID, nil)
		r.s.publish(b, b.Faults, &b.ErrorFileID, nil)
		end := failed
		if b.Status == cancelling {
			end = cancelled
		}
		b.set(end, r.s.o.now())
	})
	return goesOn
}

// openOutputs opens both output files, and notes what they have.
func (r *run) openOutputs() error {
	s, counts := r.s, [2]int{}
	if err := r.inSpare(s.ctx, func(yield func() error) (err error) {
		if r.out, counts[0], err = r.openOutput(r.b.Output, yield); err == nil {
			r.faults, counts[1], err = r.openOutput(r.b.Faults, yield)
		}
		return err
	}); err != nil {
		return unwritable(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r.b.RequestCounts.Completed, r.b.RequestCounts.Failed = counts[0], counts[1]
	return nil
}

// openOutput opens an output file to append to it, and notes the requests that it answers. It
// returns how many these are.
func (r *run) openOutput(id string, yield func() error) (w *writer, answers int, err error) {
	path, key := r.s.path(id), r.key
	before, err := open(path, key, id)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		w, err = create(path, key, id)
		return w, 0, err
	case errors.Is(err, errDamaged): // a crash has cut off its header
		if err = destroy(path); err == nil {
			w, err = create(path, key, id)
		}
		return w, 0, err
	case err != nil:
		return nil, 0, err
	}
	defer before.close()
	bytes := int64(0)
	for {
		line, err := before.record()
		if err != nil {
			break // what was cut off or damaged is computed again
		}
		if err := yield(); err != nil {
			return nil, 0, err
		}
		var one batch.Result
		if json.Unmarshal(line, &one) == nil && one.CustomID != "" {
			r.answered[hashOf(one.CustomID)] = true
			answers++
		}
		bytes += int64(len(line))
	}
	if w, err = resume(path, key, id, before.end); err == nil {
		w.bytes = bytes
	}
	return w, answers, err
}

func (r *run) closeOutputs() (err error) {
	for _, w := range []*writer{r.out, r.faults} {
		if w != nil {
			if closed := w.close(); closed != nil {
				err = errors.Join(err, unwritable(closed))
			}
		}
	}
	return err
}
