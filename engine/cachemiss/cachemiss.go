// Package cachemiss explains why a prompt's tokens were read again. A prefix cache goes on only as
// far as a prompt equals what was computed before, to the token: a clock in the system prompt, or
// tools listed in another order, and everything behind them is read anew, which a user feels as a
// slow first token and cannot see the cause of.
//
// A Log remembers the token ids of what was computed lately (log.go). Find compares a prompt with
// them, which is cheap and wants to be done before the prompt runs; Explain makes a Report of the
// nearest one, which decodes texts and can wait until the prompt has run (explain.go). Causes are
// read off the text around the first difference: dates and counters (values.go), the tools of a
// chat template (tools.go), thoughts that were left out (explain.go).
//
// A cause is a likely one: what cannot be told apart is called HeadChanged or MessageEdited.
// Nothing here runs a model, and what a text says is never trusted: any tokens and any decoder are
// answered with a Report of valid UTF-8.
package cachemiss

import "time"

// Cause is why tokens were read. The values are stable: clients match on them.
type Cause string

// The causes. The first two are no fault: what was read was new.
const (
	// nothing began like this, or only a beginning that many conversations share
	NewConversation Cause = "new_conversation"
	Continued       Cause = "continued"       // the prompt goes on from what was known
	HeadChanged     Cause = "head_changed"    // what precedes the first user message
	DateChanged     Cause = "date_changed"    // a date or a time of day
	CounterChanged  Cause = "counter_changed" // a number, a UUID or another id
	// the same tools in another order, or with their keys in another order
	ToolsReordered Cause = "tools_reordered"
	ToolsChanged   Cause = "tools_changed" // a tool came, went, or reads otherwise
	// a thought was computed and then left out of the history
	ThinkingStripped Cause = "thinking_stripped"
	MessageEdited    Cause = "message_edited" // an earlier message, or one more answer to it
	// the same text, cut into other tokens than the model had written
	Retokenized Cause = "retokenized"
	// the text was known, its keys and values were no longer held
	Evicted Cause = "evicted"
	// recurrent layers go on only from where a state was kept
	StateNotKept  Cause = "state_not_kept"
	CacheOff      Cause = "cache_off"      // the cache is turned off
	FormatChanged Cause = "format_changed" // it was computed in another cache format
	ModelChanged  Cause = "model_changed"  // it was computed by another model
)

// Report is what became of one prompt. Texts are valid UTF-8, of about 80 bytes, and empty where
// nothing differs.
type Report struct {
	// the first token that is not as it was known, where new text begins; -1: nothing began like
	// this
	Break        int
	CommonTokens int    // of the prompt, how many were known
	ReadTokens   int    // of the prompt, how many were not taken from a cache
	Before       string // what both have before the first difference
	Was, Is      string // from there on, what was known and what the prompt says
	Cause        Cause  // the likely one
	Advice       string // a sentence: what the user, or the author of the client, can do
	// when the sequence that the prompt was compared with ended; zero if there is none
	KnownAt time.Time
}

// The least that is worth a word, in tokens: a cache's page, and the template's words around a
// message.
const (
	worthTelling = 32
	boilerplate  = 16
)
