// Package cachemiss explains why a prompt missed the prefix cache. A prefix is reused only as far
// as its tokens are equal. If the system prompt contains the time, or lists its tools in another
// order, everything after that is computed again. The user notices a slow first token and cannot
// see why.
//
// A Log keeps the token ids of recent sequences (log.go). Find compares a prompt with them. It is
// cheap and should be called before the prompt is computed. Explain reports how the prompt differs
// from the nearest sequence. It decodes texts and can be called later (explain.go). The cause
// follows from the text around the first difference: dates and counters (values.go), the tools of a
// chat template (tools.go), dropped reasoning (explain.go).
//
// Explain gives the most likely cause. A change without a known pattern is HeadChanged or
// MessageEdited. Texts come from clients and are not trusted: for any tokens and any decoder,
// Explain returns a Report of valid UTF-8.
package cachemiss

import "time"

// Cause is the reason why prompt tokens were computed. The values are stable: clients match on
// them.
type Cause string

// The causes. NewConversation and Continued are not misses: the tokens were new.
const (
	// NewConversation: no known sequence begins like the prompt, apart from a beginning that many
	// conversations share.
	NewConversation Cause = "new_conversation"
	// Continued: the prompt continues a known sequence.
	Continued Cause = "continued"
	// HeadChanged: the text before the first user message changed.
	HeadChanged Cause = "head_changed"
	// DateChanged: a date or a time of day changed.
	DateChanged Cause = "date_changed"
	// CounterChanged: a number, a UUID or another id changed.
	CounterChanged Cause = "counter_changed"
	// ToolsReordered: the same tools come in another order, or have their keys in another order.
	ToolsReordered Cause = "tools_reordered"
	// ToolsChanged: a tool was added, removed or edited.
	ToolsChanged Cause = "tools_changed"
	// ThinkingStripped: the client dropped the model's reasoning from the history.
	ThinkingStripped Cause = "thinking_stripped"
	// MessageEdited: an earlier message was changed, or the answer to it.
	MessageEdited Cause = "message_edited"
	// Retokenized: the text equals the model's answer, but is encoded as different tokens.
	Retokenized Cause = "retokenized"
	// Evicted: the keys and values of known text were evicted.
	Evicted Cause = "evicted"
	// StateNotCached: recurrent layers can resume only where a state is cached.
	StateNotCached Cause = "state_not_cached"
	// CacheOff: the prefix cache is turned off.
	CacheOff Cause = "cache_off"
	// FormatChanged: the prompt was computed before in another cache format.
	FormatChanged Cause = "format_changed"
	// ModelChanged: the prompt was computed before by another model.
	ModelChanged Cause = "model_changed"
	// Private: the request was private, so its prompt was not compared with others.
	Private Cause = "private"
)

// Report explains the cache miss of one prompt. Texts are valid UTF-8 of about 80 bytes, and empty
// if nothing differs.
type Report struct {
	// Break is the position of the first token that differs from the nearest sequence; -1: no known
	// sequence begins like the prompt.
	Break        int
	CommonTokens int // prompt tokens that were computed before
	ReadTokens   int // prompt tokens that were not cached
	// RecomputedTokens estimates how many of these were computed before: what the miss cost. The
	// rest of them is new. It is 0 if the cause is NewConversation or Continued.
	RecomputedTokens int
	Before           string // the common text before the first difference
	Was, Is          string // the texts after Before in the known sequence and in the prompt
	Cause            Cause
	Advice           string // for the user or the client's author
	// KnownAt is when the nearest sequence ended; zero if there is none.
	KnownAt time.Time
}

const (
	// minReportedTokens is the smallest number of evicted tokens that is reported. The cache works
	// in pages, so small losses are normal.
	minReportedTokens = 32
	// boilerplate is the approximate number of tokens that a template puts around a message.
	boilerplate = 16
)
