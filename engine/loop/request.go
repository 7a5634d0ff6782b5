package loop

// The client's view of a generation: the request, its events, its token counts and its timing. The
// loop knows only tokens and stop texts. Other packages add chat, tools and HTTP.

import (
	"time"

	"headroom/engine/cache"
	"headroom/engine/cachemiss"
	"headroom/engine/chat"
	"headroom/engine/draft"
	"headroom/engine/sample"
	"headroom/engine/sched"
	"headroom/engine/structured"
	"headroom/engine/tokenizer"
	"headroom/kernels"
)

// Request asks for one generation: token ids in, events out. Only Prompt is required. The zero
// value of every other field is a default.
type Request struct {
	ID        string        // identifies the request in logs, in the UI and for Cancel; "": random
	Prompt    []int32       // token ids, at least one; the engine keeps the slice
	MaxTokens int           // maximum length of the answer; 0: the rest of the context
	Sampling  sample.Params // zero: greedy
	Stop      []string      // texts that end the generation; the answer ends before them
	IgnoreEOS bool          // continue after the model's end tokens, for benchmarks
	// ShowTags says that the answer is a message for a chat.Splitter. Its text has the special
	// tokens that the Splitter needs. Otherwise it continues the text of the prompt.
	ShowTags bool
	// Output is the form that the answer must have; nil: any.
	Output *structured.Output
	// Speculate is how tokens are decoded ahead, within what the engine's option of this name
	// allows; "": as that says. Drafts change no token.
	Speculate string
	// Prediction is a text that the answer may repeat. Only drafts depend on it.
	Prediction []int32
	// Adapter changes the model for this request; nil: nothing does, or the engine's own adapter.
	Adapter  *Adapter
	Priority int // waiting requests of larger priority run first
	// Background lets all other requests go first and slows them hardly; see background.go. It is
	// for batches.
	Background bool
	// Owner is whose request it is, such as the ID of an API key. All requests with "" have one
	// owner, too. Drafts follow no conversation of another owner. Usage of a request with a named
	// owner counts cached tokens in whole pages, since single ones would tell what others asked.
	Owner string
	// Client is the name of the program that sent the request, and Key that of its API key, for
	// lists; "": unknown, or none. A private request drops both.
	Client, Key string
	// Private keeps the request in memory. None of its tokens, texts and titles are written to disk
	// or shown, nor is its prompt looked up in the block store. Its prefix stays cached in memory.
	Private bool
	// NoCache frees the memory of the request when it ends, instead of caching its prefix.
	NoCache bool
	// Uncached computes the whole prompt, also what is cached. The request is then Private and
	// NoCache too.
	Uncached bool
	// ScorePrompt reports the log-probability of every prompt token after the first. The whole
	// prompt is computed, also what is cached. The request is then Private and NoCache too.
	ScorePrompt bool
	// Embed reports the vector of the prompt, or its score, instead of an answer. The model must be
	// one that computes vectors, and all requests to such a model have Embed. The request is then
	// Private and NoCache too.
	Embed    bool
	NoAnswer bool // end after the prompt, with FinishLength; MaxTokens does not matter
	// Candidates are tokens that may follow the prompt. The request reports the log-probability of
	// each and generates nothing, as with NoAnswer. The prompt is cached like that of an answer.
	Candidates []int32
}

// EventType tells what an Event reports.
type EventType uint8

// The events of a request, in this order. A Prefill event is sent when the first pass is launched,
// and whenever more of the prompt has been computed. A Scored event with new scores comes with it,
// if the request asks for them. That of Candidates comes with the last Prefill event. Then there is
// a Token event for each generated token, or one Embedded event, and at the end one Done event. A
// request that is cancelled while it waits has only Done.
const (
	Prefill  EventType = iota // prompt progress, in Usage
	Scored                    // log-probabilities of prompt tokens, or of Request.Candidates
	Token                     // one generated token
	Embedded                  // the vector of the prompt
	Done                      // the end: Finish, Err, Timing
)

// FinishReason tells why a generation ended.
type FinishReason string

// The reasons why a generation ends. FinishStop and FinishLength have OpenAI's values.
const (
	FinishStop      FinishReason = "stop"      // an end token or a stop text
	FinishLength    FinishReason = "length"    // MaxTokens or the end of the context
	FinishCancelled FinishReason = "cancelled" // the client disconnected, or Cancel was called
	FinishError     FinishReason = "error"     // see Event.Err
)

// Event reports the progress of a request, one of its tokens, or its end.
type Event struct {
	Type EventType

	// Set in Scored events: the scores of the prompt tokens from Position on.
	Position int
	Scores   []Score
	// Set instead for a request with Candidates: the log-probability of each of them.
	Candidates []float32

	Vector []float32 // set in Embedded events

	// Set in Token events. Text is the text that this token completes. A character that is split
	// across tokens comes with the last of them. Text that may be the beginning of a stop text is
	// held back. So Text is often empty and sometimes long. In the Done event, Text is the text
	// that was still held back.
	Token   int32
	Text    string
	Logprob float32
	Top     []sample.TokenLogprob // the most likely tokens, if Sampling asks for them

	// Set in the Done event.
	Finish   FinishReason
	Err      error
	Timing   Timing
	NoDrafts draft.Why // why there were no drafts

	// Set in every event.
	Usage Usage
}

// Usage counts the tokens of a request.
type Usage struct {
	PromptTokens     int // length of the prompt
	PromptDoneTokens int // prompt tokens in the KV cache so far; see Request.Owner
	CachedTokens     int // prompt tokens that came from the prefix cache; see Request.Owner
	StoredTokens     int // cached tokens that were read back from disk
	CompletionTokens int // generated so far, the end token included
	// DraftTokens were proposed, and AcceptedTokens of them were what the model chose.
	DraftTokens, AcceptedTokens int
	// Of these, DraftModelTokens and DraftModelAccepted are those of a draft model, a drafter of
	// blocks or an assistant, and BlockTokens and BlockAccepted those of the model's own block.
	DraftModelTokens, DraftModelAccepted, BlockTokens, BlockAccepted int
	// PredictionTokens and PredictionAccepted are those that were looked up in Request.Prediction.
	PredictionTokens, PredictionAccepted int
}

// Drafts returns the counts of all drafts by the way in which they were drafted.
func (u Usage) Drafts() draft.Ways {
	w := draft.Ways{DraftModel: draft.Counts{Proposed: u.DraftModelTokens,
		Accepted: u.DraftModelAccepted},
		Block:      draft.Counts{Proposed: u.BlockTokens, Accepted: u.BlockAccepted},
		Prediction: draft.Counts{Proposed: u.PredictionTokens, Accepted: u.PredictionAccepted}}
	others := w.DraftModel
	others.Add(w.Block)
	others.Add(w.Prediction)
	w.Lookup = draft.Counts{Proposed: u.DraftTokens - others.Proposed,
		Accepted: u.AcceptedTokens - others.Accepted}
	return w
}

// Timing holds the durations of the phases of a request. A phase that was not reached is 0.
type Timing struct {
	Queued      time.Duration // from Submit to the first pass
	Prefill     time.Duration // from the first pass to the first token, or to the end of the prompt
	Decode      time.Duration // from the first token to the last
	FirstToken  time.Duration // from Submit to the first token
	LongestGap  time.Duration // the longest time between two tokens
	DecodeSteps int           // generated tokens after the first
	// Saved is how much longer Decode would have been without drafts, by estimate (draft.Cost).
	// Negative: drafts cost time.
	Saved time.Duration
}

// DecodeTokensPerSecond returns the decoding speed: the tokens after the first, per second of
// Decode. It returns 0 if there was only one token.
func (t Timing) DecodeTokensPerSecond() float64 {
	if t.Decode <= 0 {
		return 0
	}
	return float64(t.DecodeSteps) / t.Decode.Seconds()
}

// Speedup returns how many times as fast as without drafts an answer was decoded, by estimate. It
// is 0 if there was only one token.
func (t Timing) Speedup() float64 { return draft.Speedup(t.Decode.Seconds(), t.Saved.Seconds()) }

// request is a Request with its state in the loop.
type request struct {
	Request
	requestDrafts
	adapter *loadedAdapter // nil: none
	seq     sched.Sequence
	compact kernels.Compact // the selection of seq, if it has one
	sampler *sample.Sampler
	form    *structured.Answer // nil: the answer may have any form
	text    *tokenizer.Stream
	stop    *chat.StopMatcher
	stopped bool      // a stop text ended the generation
	scored  int       // prompt tokens whose scores have been sent
	pooled  []float64 // with Embed: the sums of hidden states so far
	vector  []float32 // with Embed: the result
	ended   bool      // finish was called; a step in flight may still hold the request
	stream  *Stream
	usage   Usage
	miss    cachemiss.Match // the prompt compared with the history at Submit
	title   string          // the conversation's title in lists

	lookups                int // number of lookups in the block store
	blockHits, blockWrites int // blocks read from the store, and passed to it
	storedFrom, storedTo   int // resumable tokens before and after reading from the store

	lacksSince time.Time // since when it waits for memory; zero: it does not

	submitted, started, first, last time.Time
	longestGap                      time.Duration
}

// counted returns how many of the first tokens of the prompt count as done; see Request.Owner.
func (r *request) counted(tokens int) int {
	if r.Owner != "" && tokens < len(r.Prompt) {
		tokens -= tokens % cache.PageTokens
	}
	return tokens
}

// answerTokens returns the maximum length of the answer. It is MaxTokens, or less if there was less
// memory when the request was admitted.
func (r *request) answerTokens() int { return r.seq.Most - len(r.Prompt) }

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
		t.DecodeSteps, t.Saved = r.usage.CompletionTokens-1, r.saved
	} else if !r.last.IsZero() { // NoAnswer: the prompt was computed
		t.Prefill = r.last.Sub(r.started)
	}
	return t
}
