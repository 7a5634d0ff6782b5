package batches

// The life of a batch. Its input is validated, its requests are answered, and its output files come
// into the list of files. It begins anew at each start of the server: what the output files have is
// not computed again.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"slices"
	"sync"
	"time"

	"headroom/app/batch"
	"headroom/engine/generate"
	"headroom/engine/guard"
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
	answered    map[string]bool // custom_ids
}

// create adds a batch and starts it.
func (s *Store) create(owner string, q newBatch) (Batch, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.open(); err != nil {
		return Batch{}, err
	}
	f, err := s.file(owner, q.InputFileID)
	if err != nil {
		return Batch{}, badParam("input_file_id", "there is no file %.80q", q.InputFileID)
	}
	if f.Purpose != purposeInput {
		return Batch{}, badParam("input_file_id", "the file has the purpose %q, expected %q",
			f.Purpose, purposeInput)
	}
	unfinished, own := 0, 0
	for _, b := range s.index.Batches {
		if !b.Status.ended() {
			unfinished++
		}
		if b.Owner == owner {
			own++
		}
	}
	if unfinished >= maxUnfinished || own >= maxBatches {
		return Batch{}, problem.New(problem.Busy, "There are too many batches",
			fmt.Sprintf("at most %d may be unfinished, and a key may have %d", maxUnfinished,
				maxBatches), "Wait until some have ended.")
	}
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
	if err := s.save(); err != nil {
		s.index.Batches = s.index.Batches[:len(s.index.Batches)-1]
		s.index.Files = s.index.Files[:len(s.index.Files)-2]
		return Batch{}, err
	}
	s.launch(b)
	return b.copied(), nil
}

// launch starts a batch that has not ended. The caller holds mu.
func (s *Store) launch(b *storedBatch) {
	if s.answer == nil || s.closed || b.Status.ended() || s.runs[b.ID] != nil {
		return
	}
	r := &run{s: s, b: b, key: s.key, answer: s.answer, answered: map[string]bool{}}
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
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.open(); err != nil {
		return Batch{}, err
	}
	b, err := s.batchOf(owner, id)
	if err != nil {
		return Batch{}, err
	}
	return b.copied(), nil
}

// batches returns the batches of an owner.
func (s *Store) batches(owner string, p paging) (List, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.open(); err != nil {
		return List{}, err
	}
	list := []Batch{}
	for _, b := range s.index.Batches {
		if b.Owner == owner {
			list = append(list, b.copied())
		}
	}
	return page(p, list, func(b Batch) string { return b.ID })
}

// cancel ends a batch. Its requests that are being answered are not.
func (s *Store) cancel(owner, id string) (Batch, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.open(); err != nil {
		return Batch{}, err
	}
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
	b.set(cancelling, s.o.now())
	if err := s.save(); err != nil {
		return Batch{}, err
	}
	if r := s.runs[id]; r != nil {
		r.cancel(errCancelled)
	}
	return b.copied(), nil
}

// all is the life of the batch, as far as it is not over. If the server is closing, it returns
// early.
func (r *run) all() {
	s := r.s
	if r.status() == validating && !r.validate() {
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
		why := err
		if err = nil; r.validated() {
			err = r.fillUp(code, why)
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
				Message: problem.From(err).Error()}}}
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

func (r *run) status() Status {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	return r.b.Status
}

// validated reports whether the lines of the input are known to be requests.
func (r *run) validated() bool {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	return r.b.InProgressAt != nil
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

// validate checks the input and reports whether the batch goes on.
func (r *run) validate() bool {
	input, err := open(r.s.path(r.b.InputFileID), r.key, r.b.InputFileID)
	total, errs := 0, []LineError(nil)
	if err == nil {
		total, errs = validate(&interrupted{r.s.ctx, input}, r.b.Endpoint)
		input.close()
	} else {
		errs = []LineError{{Code: "file_missing", Message: "The input file cannot be read."}}
	}
	if r.s.ctx.Err() != nil {
		return false
	}
	goesOn := len(errs) == 0
	r.change(func(b *storedBatch) {
		if goesOn {
			b.RequestCounts.Total = total
			if b.Status == validating { // and not cancelling
				b.set(inProgress, r.s.o.now())
			}
			return
		}
		b.Errors = &Errors{Object: "list", Data: errs}
		r.s.publish(b, b.Output, &b.OutputFileID, nil)
		r.s.publish(b, b.Faults, &b.ErrorFileID, nil)
		b.set(failed, r.s.o.now())
	})
	return goesOn
}

// interrupted is a reader that ends with its context.
type interrupted struct {
	ctx context.Context
	io.Reader
}

func (r *interrupted) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}

// openOutputs opens both output files, and notes what they have.
func (r *run) openOutputs() error {
	s, counts := r.s, [2]int{}
	for i, id := range []string{r.b.Output, r.b.Faults} {
		w, n, err := r.openOutput(id)
		if err != nil {
			return unwritable(err)
		}
		counts[i] = n
		if i == 0 {
			r.out = w
		} else {
			r.faults = w
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r.b.RequestCounts.Completed, r.b.RequestCounts.Failed = counts[0], counts[1]
	return nil
}

// openOutput opens an output file to append to it, and notes the requests that it answers. It
// returns how many these are.
func (r *run) openOutput(id string) (w *writer, answers int, err error) {
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
		var one batch.Result
		if json.Unmarshal(line, &one) == nil && one.CustomID != "" {
			r.answered[one.CustomID] = true
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

// requests answers what is not answered yet. Its error is why not all is.
func (r *run) requests() error {
	s := r.s
	left := time.Unix(r.b.ExpiresAt, 0).Sub(s.o.now())
	ctx, end := context.WithTimeoutCause(r.ctx, left, errExpired)
	defer end()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var working sync.WaitGroup
	mine := make(chan struct{}, s.o.Workers)
	err := r.unanswered(func(q batch.Request) error {
		select {
		case mine <- struct{}{}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		working.Go(func() {
			defer func() { <-mine }()
			if err := r.one(ctx, q); err != nil {
				stop(err)
			}
		})
		return nil
	})
	working.Wait()
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// unanswered calls do with each request that is not answered yet, until do returns an error.
func (r *run) unanswered(do func(batch.Request) error) error {
	input, err := open(r.s.path(r.b.InputFileID), r.key, r.b.InputFileID)
	if err != nil {
		return problem.Wrap(problem.Internal, err, "The input file cannot be read", "")
	}
	defer input.close()
	lines := batch.NewLines(input)
	for lines.Next() {
		q, why := batch.Parse(lines.Line)
		if why != "" {
			return problem.New(problem.Internal, "The input file has changed",
				fmt.Sprintf("line %d: %s", lines.Number, why), "")
		}
		r.mu.Lock()
		done := r.answered[q.CustomID]
		r.mu.Unlock()
		if done {
			continue
		}
		q.Body = slices.Clone(q.Body)
		if err := do(q); err != nil {
			return err
		}
	}
	if lines.Err != nil {
		return problem.Wrap(problem.Internal, lines.Err, "The input file cannot be read", "")
	}
	return nil
}

// fillUp writes an error for each request that is not answered, because of the reason why.
func (r *run) fillUp(code string, why error) error {
	return r.unanswered(func(q batch.Request) error {
		answer := batch.NewResult(q)
		answer.Error = &batch.Failure{Code: code,
			Message: "This request was not answered: " + why.Error() + "."}
		return r.write(answer)
	})
}

// one answers a request, and sends it again while the model cannot take it. Nothing is written if
// ctx has ended.
func (r *run) one(ctx context.Context, q batch.Request) error {
	const tries = 5
	s, pause := r.s, r.s.o.firstPause
	for n := 1; ; n++ {
		answer, after, err := r.ask(ctx, q)
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
		timer := time.NewTimer(max(after, pause))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil
		}
		pause = min(2*pause, 60*s.o.firstPause)
	}
}

// ask sends a request once, when it is the turn of the batch.
func (r *run) ask(ctx context.Context, q batch.Request) (answer batch.Result,
	retryAfter time.Duration, err error) {
	s := r.s
	select {
	case s.slots <- struct{}{}: // those who wait are served in order, so batches take turns
	case <-ctx.Done():
		return answer, 0, nil
	}
	defer func() { <-s.slots }()
	ctx = guard.Background(ctx)
	if r.b.Owner != "" {
		var caller *guard.Caller
		if s.o.Caller != nil {
			caller = s.o.Caller(r.b.Owner)
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
	r.answered[answer.CustomID] = true
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
