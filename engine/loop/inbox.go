package loop

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"headroom/engine/chat"
	"headroom/engine/problem"
	"headroom/engine/sample"
	"headroom/engine/sched"
)

// closeTimeout is the longest time for which Close writes unsaved conversations to disk. Those that
// are not written by then are lost.
const closeTimeout = 10 * time.Second

// inbox holds the requests, the ends of requests and the calls that other goroutines send to the
// loop.
type inbox struct {
	wake  chan struct{} // capacity 1: holds a value if the inbox may not be empty
	ended chan struct{} // closed when the loop has returned
	// urgent is true if there is a request that is not in the background. It stops a step of the
	// background alone.
	urgent atomic.Bool

	mu            sync.Mutex
	submitted     []*request
	endings       []requestEnd
	calls         []func()
	live          map[*request]bool // submitted and not ended
	closing       bool
	closeDeadline time.Time // nothing is written to the block store after it
}

// requestEnd ends a request.
type requestEnd struct {
	request *request
	reason  FinishReason
}

func newInbox() inbox {
	return inbox{wake: make(chan struct{}, 1), ended: make(chan struct{}),
		live: map[*request]bool{}}
}

// signal wakes the loop. The caller must hold mu, so that the loop sees the item just added.
func (b *inbox) signal() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// pending returns the number of items in the inbox.
func (b *inbox) pending() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.submitted) + len(b.endings) + len(b.calls)
}

// pastDeadline reports whether the loop has been closing for longer than closeTimeout.
func (b *inbox) pastDeadline() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.closing && time.Now().After(b.closeDeadline)
}

// remove deletes an ended request from the live ones.
func (b *inbox) remove(r *request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.live, r)
}

// runOnLoop queues f to be called on the goroutine of the loop. It does not wait for the call.
func (l *Loop) runOnLoop(f func()) {
	l.inbox.mu.Lock()
	defer l.inbox.mu.Unlock()
	l.inbox.calls = append(l.inbox.calls, f)
	l.inbox.signal()
}

// takeInbox empties the inbox: it makes the queued calls, adds the submitted requests and ends
// those that others have ended. If the loop is closing, takeInbox ends all requests and returns
// false.
func (l *Loop) takeInbox() bool {
	b := &l.inbox
	b.mu.Lock()
	b.urgent.Store(false)
	submitted, endings, calls, closing := b.submitted, b.endings, b.calls, b.closing
	b.submitted, b.endings, b.calls = nil, nil, nil
	b.mu.Unlock()
	for _, f := range calls {
		f()
	}
	for _, r := range submitted {
		l.placeAdapter(r.adapter)
		l.requests = append(l.requests, r)
		l.sched.Add(&r.seq)
		l.stored.preload.yield(r)
		l.lookUp(r)
	}
	for _, end := range endings {
		l.finish(end.request, end.reason, nil)
	}
	if closing {
		l.stored.preload.stop()
		l.stored.cancel() // no request waits for these reads any more
	}
	for closing && len(l.requests) > 0 {
		l.finish(l.requests[0], FinishCancelled, nil)
	}
	l.saveEnds(time.Now(), submitted, closing)
	return !closing
}

// Submit queues a request. Its events arrive on the stream. The last one, Done, arrives when the
// request finishes or is cancelled. Errors are Problems.
func (l *Loop) Submit(r Request) (*Stream, error) {
	if err := l.validate(&r); err != nil {
		return nil, err
	}
	a, err := l.adapters.acquire(r.Adapter)
	if err != nil {
		return nil, err
	}
	stream, err := l.submit(r, a)
	if err != nil {
		l.adapters.release(a)
	}
	return stream, err
}

// submit queues a valid request with its adapter; nil: none.
func (l *Loop) submit(r Request, a *loadedAdapter) (*Stream, error) {
	if r.ID == "" {
		r.ID = newID()
	}
	if left := l.config.ContextTokens - len(r.Prompt); r.MaxTokens <= 0 || r.MaxTokens > left {
		r.MaxTokens = left
	}
	if r.ScorePrompt || r.Embed || r.Uncached {
		r.Private, r.NoCache, r.Uncached = true, true, true
	}
	if r.NoAnswer = r.NoAnswer || len(r.Candidates) > 0; r.NoAnswer || r.Embed {
		r.MaxTokens = 0
	}
	q := &request{Request: r, adapter: a, submitted: time.Now(),
		usage: Usage{PromptTokens: len(r.Prompt)}}
	if r.Private {
		q.Client, q.Key = "", ""
	} else {
		q.miss, q.title = l.log.compare(r.Prompt, a.key()), l.text.Title(r.Prompt)
	}
	// The capacity includes room for the answer, so that the loop seldom allocates.
	tokens := make([]int32, 0, len(r.Prompt)+min(r.MaxTokens, 4096))
	q.seq = sched.Sequence{Tokens: append(tokens, r.Prompt...), Priority: r.Priority, Slot: -1,
		Background: r.Background, Private: r.Private, NoCache: r.NoCache, Whole: r.Uncached,
		Most:  len(r.Prompt) + r.MaxTokens,
		Space: a.space(), Owner: q}
	if l.config.Sched.Recurrent {
		q.seq.Keep = l.statePositions(r.Prompt)
	}
	if !r.NoAnswer && !r.ScorePrompt && !r.Embed {
		l.config.Sched.SelectAfter(&q.seq)
	}
	if !r.Embed {
		q.sampler = sample.New(r.Sampling, l.runner.VocabSize(), l.text)
		for _, t := range r.Prompt {
			q.sampler.Observe(t)
		}
		q.text = l.text.NewStream(r.Prompt, r.ShowTags)
		q.stop = chat.NewStopMatcher(r.Stop)
		l.drafts.index(q)
	}
	if r.Output != nil && !r.Embed {
		form, err := l.text.Compiler().NewAnswer(r.Output)
		if err != nil {
			return nil, err
		}
		q.form = form
		q.sampler.Constrain()
	}
	q.stream, _ = NewStream(r.ID, func(reason FinishReason) { l.end(q, reason) })
	return q.stream, l.enqueue(q)
}

// validate returns a Problem if the request is not valid.
func (l *Loop) validate(r *Request) error {
	if err := l.checkEmbed(r); err != nil {
		return err
	}
	most, room := l.config.ContextTokens-1, "the answer needs at least one more"
	if r.NoAnswer || r.Embed || len(r.Candidates) > 0 {
		most, room = most+1, ""
	}
	switch {
	case len(r.Prompt) == 0:
		return problem.New(problem.BadRequest, "The prompt is empty", "",
			"Send at least one token.")
	case len(r.Prompt) > most:
		return problem.TooLong(problem.Overflow{Tokens: len(r.Prompt),
			Context: l.config.ContextTokens}, room)
	}
	vocab := l.runner.VocabSize()
	unknown := func(t int32) bool { return t < 0 || int(t) >= vocab }
	if i := slices.IndexFunc(r.Prompt, unknown); i >= 0 {
		if err := l.beyondVocabulary(r.Prompt[i]); err != nil {
			return err
		}
		return problem.New(problem.BadRequest,
			"The prompt contains a token that the model does not have",
			fmt.Sprintf("token %d at position %d, the vocabulary has %d", r.Prompt[i], i, vocab),
			"Send token ids of this model's tokenizer.")
	}
	if i := slices.IndexFunc(r.Candidates, unknown); i >= 0 {
		if err := l.beyondVocabulary(r.Candidates[i]); err != nil {
			return err
		}
		return problem.New(problem.BadRequest,
			"A candidate is a token that the model does not have",
			fmt.Sprintf("token %d, the vocabulary has %d", r.Candidates[i], vocab),
			"Send token ids of this model's tokenizer.")
	}
	if len(r.Candidates) > 0 && r.ScorePrompt {
		return problem.New(problem.BadRequest,
			"A request scores its prompt or candidates, not both", "", "Send two requests.")
	}
	if err := r.Sampling.Validate(); err != nil {
		return problem.Wrap(problem.BadRequest, err, "A sampling parameter is out of range", "")
	}
	return nil
}

// beyondVocabulary returns a Problem if the tokenizer has a token that the model lacks: the files
// are at fault, not the request. It returns nil if the tokenizer lacks it, too.
func (l *Loop) beyondVocabulary(token int32) error {
	if l.config.Text == nil || l.config.Text.Tokenizer().TokenBytes(token) == nil {
		return nil
	}
	return problem.New(problem.ModelBroken,
		"The model's tokenizer has more tokens than the model",
		fmt.Sprintf("its token %d is %.40q, the model's vocab_size is %d", token,
			l.config.Text.Tokenizer().TokenBytes(token), l.runner.VocabSize()),
		"Use the tokenizer of this model, or write the text without this token.")
}

// keepEvery is the maximum number of prompt tokens between two kept states. A cache hit between two
// states computes fewer than keepEvery tokens again.
const keepEvery = 1024

// statePositions returns the positions of a prompt after which to keep the recurrent state:
//
//   - the end of the first message, which many conversations share
//   - the ends of the last two messages, where the next turn or an edited one will diverge
//   - every keepEvery tokens
//   - the position before the last token, in case the same prompt is sent again
func (l *Loop) statePositions(prompt []int32) []int {
	var ends []int
	for i, t := range prompt {
		if l.text.IsEOS(t) && i+1 < len(prompt) {
			ends = append(ends, i+1)
		}
	}
	if len(ends) > 3 {
		ends = append(ends[:1], ends[len(ends)-2:]...)
	}
	for at := keepEvery; at < len(prompt); at += keepEvery {
		ends = append(ends, at)
	}
	if len(prompt) > 1 {
		ends = append(ends, len(prompt)-1)
	}
	slices.Sort(ends)
	return slices.Compact(ends)
}

// enqueue puts a request into the inbox, unless the queue is full or the loop is closing. Requests
// in the background have a queue of their own.
func (l *Loop) enqueue(q *request) error {
	running := l.published.running(q.Background)
	b := &l.inbox
	b.mu.Lock()
	waiting, submitted, closing := -running, slices.Clone(b.submitted), b.closing
	for other := range b.live {
		if other.Background == q.Background {
			waiting++
		}
	}
	accepted := !closing && waiting < l.config.QueueRequests
	if accepted {
		b.submitted = append(b.submitted, q)
		b.live[q] = true
		if !q.Background {
			b.urgent.Store(true)
		}
		b.signal()
	}
	b.mu.Unlock()
	switch {
	case closing:
		return problem.New(problem.NotRunning, "The model is being unloaded", "", "Start it again.")
	case !accepted:
		return l.queueFull(waiting, submitted)
	}
	return nil
}

func (l *Loop) end(q *request, reason FinishReason) {
	b := &l.inbox
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closing {
		b.endings = append(b.endings, requestEnd{q, reason})
		b.signal()
	}
}

// Cancel stops the request with that ID and reports whether it found one.
func (l *Loop) Cancel(id string) bool {
	b := &l.inbox
	b.mu.Lock()
	defer b.mu.Unlock()
	found := false
	for q := range b.live {
		if q.ID == id {
			b.endings = append(b.endings, requestEnd{q, FinishCancelled})
			found = true
		}
	}
	b.signal()
	return found
}

// Close ends every request, writes the cached prefixes that are not yet in the block store, and
// waits for the writes. A second call waits too. When Close returns, the device is idle.
func (l *Loop) Close() {
	b := &l.inbox
	b.mu.Lock()
	if !b.closing {
		b.closing, b.closeDeadline = true, time.Now().Add(closeTimeout)
	}
	b.signal()
	b.mu.Unlock()
	<-b.ended
	<-l.log.closed
}

func newID() string {
	var b [12]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
