package engine

// A generation from the caller's side: the request, the events it becomes, and the figures in them.
// The engine knows tokens and stop texts only; chat, tools and HTTP are made of these by others.

import (
	"time"

	"headroom/engine/sample"
)

// Request is one generation: token ids in, events out. The zero value of each field but Prompt
// means the default.
type Request struct {
	ID        string        // names the request in logs, the UI and Cancel; made up when empty
	Prompt    []int32       // token ids, at least one; the engine keeps the slice
	MaxTokens int           // stop after so many; 0 means all that is left of the context
	Sampling  sample.Params // zero: greedy
	Stop      []string      // texts that end the generation and are not part of it
	IgnoreEOS bool          // go on past the model's end tokens, for benchmarks
	Priority  int           // larger goes first among waiting requests
}

// EventType says what an Event carries.
type EventType uint8

// The events of a request, in order: Prefill when its first pass begins and as the prompt is read,
// then any number of Token, then one Done. A request that is cancelled while it waits has Done
// alone.
const (
	Prefill EventType = iota // Usage counts what has been read of the prompt
	Token                    // one generated token
	Done                     // the end: FinishReason, Usage, Timing, Err
)

// FinishReason says why a generation ended.
type FinishReason string

// The reasons. Stop and Length are OpenAI's.
const (
	FinishStop      FinishReason = "stop"      // an end token or a stop text
	FinishLength    FinishReason = "length"    // MaxTokens or the end of the context
	FinishCancelled FinishReason = "cancelled" // the client went away, or somebody cancelled it
	FinishError     FinishReason = "error"     // see Err
)

// Event is one step of a request's life.
type Event struct {
	Type EventType

	// Of a Token. Text is what has become certain with it: a character cut across tokens appears
	// with the last of them, and text that may be the start of a stop text is held back, so Text is
	// often empty and sometimes long. The Done event carries what was still held.
	Token   int32
	Text    string
	Logprob float32
	Top     []sample.TokenLogprob // the most likely tokens, when Sampling asks for them

	// Of Done.
	Finish FinishReason
	Err    error
	Timing Timing

	// Of all.
	Usage Usage
}

// Usage counts tokens.
type Usage struct {
	PromptTokens     int // length of the prompt
	PromptDoneTokens int // of it, in the cache by now
	CachedTokens     int // of it, not computed because a cache had them
	StoredTokens     int // of those, read back from disk
	CompletionTokens int // generated so far, the end token included
}

// Timing is where a request's time went.
type Timing struct {
	Queued      time.Duration // from Submit to the first pass
	Prefill     time.Duration // from then to the first token
	Decode      time.Duration // from the first token to the last
	FirstToken  time.Duration // from Submit to the first token
	LongestGap  time.Duration // between two tokens
	DecodeSteps int
}

// DecodeTokensPerSecond is the speed after the first token, 0 when there was no second.
func (t Timing) DecodeTokensPerSecond() float64 {
	if t.Decode <= 0 {
		return 0
	}
	return float64(t.DecodeSteps) / t.Decode.Seconds()
}
