// Package cachemiss explains why a prompt missed the prefix cache. A prefix is reused only as far
// as its tokens are equal. If the system prompt contains the time, or lists its tools in another
// order, everything after that is computed again. A user notices a slow first token and cannot see
// why.
//
// A Log keeps the token ids of recent sequences (log.go). Find compares a prompt with them. It is
// cheap and should be called before the prompt is computed. Explain makes a Report on the nearest
// sequence. It decodes texts and can be called later (explain.go). The cause follows from the text
// around the first difference: dates and counters (values.go), the tools of a chat template
// (tools.go), dropped thoughts (explain.go).
//
// The cause is the most likely one. Changes without a known pattern are HeadChanged or
// MessageEdited. Texts come from clients and are not trusted: for any tokens and any decoder
// Explain returns a Report of valid UTF-8.
package cachemiss

import "time"

// Cause is the reason why prompt tokens were computed. The values are stable: clients match on
// them.
type Cause string

// The causes. The first two are not misses: the tokens were new.
const (
	// no known sequence begins like the prompt, apart from a beginning that many conversations
	// share
	NewConversation Cause = "new_conversation"
	Continued       Cause = "continued"       // the prompt continues a known sequence
	HeadChanged     Cause = "head_changed"    // the text before the first user message
	DateChanged     Cause = "date_changed"    // a date or a time of day
	CounterChanged  Cause = "counter_changed" // a number, a UUID or another id
	// the same tools in another order, or with their keys in another order
	ToolsReordered Cause = "tools_reordered"
	ToolsChanged   Cause = "tools_changed" // a tool was added, removed or edited
	// the client dropped a thought from the history
	ThinkingStripped Cause = "thinking_stripped"
	MessageEdited    Cause = "message_edited" // an earlier message, or another answer to it
	// the same text as the model's answer, but encoded as different tokens
	Retokenized Cause = "retokenized"
	// the keys and values of known text were evicted
	Evicted Cause = "evicted"
	// recurrent layers resume only where a state was kept
	StateNotCached Cause = "state_not_cached"
	CacheOff       Cause = "cache_off"      // the prefix cache is turned off
	FormatChanged  Cause = "format_changed" // it was computed in another cache format
	ModelChanged   Cause = "model_changed"  // it was computed by another model
)

// Report explains the cache miss of one prompt. Texts are valid UTF-8 of about 80 bytes, and empty
// if nothing differs.
type Report struct {
	// Break is the position of the first token that differs from the nearest sequence, where new
	// text begins; -1: no sequence begins with the same token.
	Break        int
	CommonTokens int    // prompt tokens that were computed before
	ReadTokens   int    // prompt tokens that were not cached
	Before       string // the common text before the first difference
	Was, Is      string // the texts after Before: of the known sequence, and of the prompt
	Cause        Cause
	Advice       string // a sentence of advice to the user or the client's author
	// KnownAt is when the nearest sequence ended; zero if there is none.
	KnownAt time.Time
}

const (
	// minReportedTokens is the smallest loss that is reported. The cache works in pages, so small
	// losses are normal.
	minReportedTokens = 32
	// boilerplate is the number of tokens that a template puts around a message.
	boilerplate = 16
)
