package loop

// A generation as its client sees it: the request, its events, its token counts and its timing. The
// loop knows tokens and stop texts only. Other packages add chat, tools and HTTP.

import (
	"time"

	"headroom/engine/cachemiss"
	"headroom/engine/chat"
	"headroom/engine/sample"
	"headroom/engine/sched"
	"headroom/engine/tokenizer"
)

// Request is one generation: token ids in, events out. The zero value of each field but Prompt
// means the default.
type Request struct {
	ID        string        // names the request in logs, the UI and Cancel; "": a random one
	Prompt    []int32       // token ids, at least one; the engine keeps the slice
	MaxTokens int           // maximum length of the answer; 0: the rest of the context
	Sampling  sample.Params // zero: greedy
	Stop      []string      // texts that end the generation and are not part of it
	IgnoreEOS bool          // continue after the model's end tokens, for benchmarks
	Priority  int           // waiting requests of larger priority run first
}

// EventType says what an Event carries.
type EventType uint8

// The events of a request, in order: Prefill when the first pass is launched and whenever more of
// the prompt has been computed, then any number of Token, then one Done. A request that is
// cancelled while it waits has only Done.
const (
	Prefill EventType = iota // prompt progress, in Usage
	Token                    // one generated token
	Done                     // the end: Finish, Err, Timing
)

// FinishReason says why a generation ended.
type FinishReason string

// The reasons. Stop and Length are OpenAI's.
const (
	FinishStop      FinishReason = "stop"      // an end token or a stop text
	FinishLength    FinishReason = "length"    // MaxTokens or the end of the context
	FinishCancelled FinishReason = "cancelled" // the client disconnected, or Cancel was called
	FinishError     FinishReason = "error"     // see Event.Err
)

// Event is one step of a request's life.
type Event struct {
	Type EventType

	// Only in a Token event. Text is the text that this token completes: a character that is split
	// across tokens comes with the last of them, and text that may begin a stop text is held back.
	// So Text is often empty and sometimes long. The Done event carries the text that was still
	// held back.
	Token   int32
	Text    string
	Logprob float32
	Top     []sample.TokenLogprob // the most likely tokens, if Sampling asks for them

	// Only in a Done event.
	Finish FinishReason
	Err    error
	Timing Timing

	// In every event.
	Usage Usage
}

// Usage counts the tokens of a request.
type Usage struct {
	PromptTokens     int // length of the prompt
	PromptDoneTokens int // prompt tokens in the KV cache so far
	CachedTokens     int // prompt tokens that came from the prefix cache
	StoredTokens     int // cached tokens that were read back from disk
	CompletionTokens int // generated so far, the end token included
}

// Timing is how long the parts of a request took.
type Timing struct {
	Queued      time.Duration // from Submit to the first pass
	Prefill     time.Duration // from then to the first token
	Decode      time.Duration // from the first token to the last
	FirstToken  time.Duration // from Submit to the first token
	LongestGap  time.Duration // between two tokens
	DecodeSteps int
}

// DecodeTokensPerSecond returns the speed after the first token, 0 if there was no second.
func (t Timing) DecodeTokensPerSecond() float64 {
	if t.Decode <= 0 {
		return 0
	}
	return float64(t.DecodeSteps) / t.Decode.Seconds()
}

// request is a Request with its state in the loop.
type request struct {
	Request
	seq     sched.Sequence
	sampler *sample.Sampler
	text    *tokenizer.Stream
	stop    *chat.StopMatcher
	stopped bool // by a stop text
	ended   bool // finish was called; a step in flight may still hold the request
	stream  *Stream
	usage   Usage
	miss    cachemiss.Match // the prompt compared with the history at Submit
	title   string          // of the conversation, for lists

	lookups                int // in the block store
	blockHits, blockWrites int // blocks read back from the store, and handed to it
	storedFrom, storedTo   int // tokens that could be resumed before and after reading back

	submitted, started, first, last time.Time
	longestGap                      time.Duration
}

// observeToken counts a generated token.
func (r *request) observeToken(now time.Time) {
	if r.usage.CompletionTokens == 0 {
		r.first = now
	} else {
		r.longestGap = max(r.longestGap, now.Sub(r.last))
	}
	r.last = now
	r.usage.CompletionTokens++
}

func (r *request) timing() Timing {
	var t Timing
	if !r.started.IsZero() {
		t.Queued = r.started.Sub(r.submitted)
	}
	if !r.first.IsZero() {
		t.Prefill = r.first.Sub(r.started)
		t.FirstToken = r.first.Sub(r.submitted)
		t.Decode = r.last.Sub(r.first)
		t.LongestGap = r.longestGap
		t.DecodeSteps = r.usage.CompletionTokens - 1
	}
	return t
}
