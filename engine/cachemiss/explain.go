package cachemiss

// Explain turns a Match into a Report. Known tokens are computed again for one of two reasons: they
// are no longer cached, or they come after the first difference. The reason that affects more
// tokens is the cause.

import (
	"fmt"
	"strings"
)

// Outcome describes how a prompt was processed after Find.
type Outcome struct {
	CachedTokens int  // prompt tokens that came from a cache
	CacheOff     bool // the prefix cache is turned off
	Recurrent    bool // the model can resume only where a state is cached
	// Decode turns tokens into text, special tokens included; nil: the report contains no text.
	Decode func([]int32) string
}

// windowTokens is the number of tokens decoded around a difference in a message.
const windowTokens = 512

// Explain returns the report for a prompt. It decodes a few hundred tokens around the difference,
// and the beginning of both texts up to the first messages.
func (m Match) Explain(o Outcome) Report {
	// The cache may hold more sequences than the log.
	known := max(m.CommonTokens, min(o.CachedTokens, len(m.prompt)))
	r := Report{Break: known, CommonTokens: known, ReadTokens: max(0, len(m.prompt)-o.CachedTokens)}
	lost := known - o.CachedTokens
	switch {
	case m.foreign != nil:
		r.KnownAt = m.foreign.At
		r.Cause, r.Advice = FormatChanged,
			"Prompts cached in another format cannot be reused. Choose one KV cache format and "+
				"keep it."
		if m.foreign.Model != m.model {
			r.Cause, r.Advice = ModelChanged,
				"Each model has its own cache, so the prompt was computed again for this model."
		}
		r.RecomputedTokens = commonPrefix(m.foreign.Tokens, m.prompt) - o.CachedTokens
	case known > m.CommonTokens:
		r.Cause, r.Advice = Continued, adviceNothing
	case len(m.nearest) == 0:
		r.Break, r.Cause, r.Advice = -1, NewConversation, adviceNothing
	default:
		d := m.compare(o.Decode)
		r.KnownAt, r.Before, r.Was, r.Is = d.sequence.At, d.before, d.was, d.is
		r.Cause, r.Advice = d.cause, d.advice
		if lost >= minReportedTokens && lost > d.knownAfter {
			r.Cause, r.Advice = memoryCause(o, known)
		}
		if r.Cause != NewConversation && r.Cause != Continued {
			r.RecomputedTokens = max(0, lost) + d.knownAfter
		}
		if r.Cause == NewConversation && known < boilerplate {
			r.Break, r.Before, r.Was, r.Is = -1, "", "", ""
		}
	}
	r.RecomputedTokens = max(0, min(r.RecomputedTokens, r.ReadTokens))
	return r
}

// memoryCause returns the reason why known text was not cached, with advice.
func memoryCause(o Outcome, known int) (Cause, string) {
	if o.CacheOff {
		return CacheOff,
			"The prefix cache is turned off: every prompt is computed from its beginning."
	}
	if o.Recurrent && o.CachedTokens > 0 {
		return StateNotCached, fmt.Sprintf("This model can resume only where a state is cached, "+
			"here after %d of %d known tokens. More cached states would help.", o.CachedTokens,
			known)
	}
	return Evicted,
		"The known text was evicted. Give the cache more memory or disk space, or run fewer " +
			"conversations at once."
}

// difference describes where and how a prompt diverges from the nearest sequence.
type difference struct {
	sequence        *Sequence
	before, was, is string
	cause           Cause
	advice          string
	// knownAfter is the number of prompt tokens after the difference that are in the sequence too.
	knownAfter int
}

const (
	adviceNothing = "Nothing is wrong: only new text was computed."
	adviceHead    = "Keep the text before the first message the same in every request."
	adviceMessage = "Everything after an edited message has to be computed again. Clients should " +
		"only add to a conversation, not rewrite it."
	adviceRetokenize = "The client sends the answer back with the same text, but it is encoded " +
		"as other tokens than the model generated."
	adviceThinking = "The client drops the reasoning of earlier answers. Let it send " +
		"reasoning_content back, or turn thinking off. Some templates keep the reasoning if " +
		"chat_template_kwargs has preserve_thinking."
)

const adviceEmptyThinking = "The chat template writes an empty reasoning before a new answer, " +
	"and leaves it out of earlier ones. There was no reasoning to send back."

// compare returns the difference from the nearest sequence. If several are equally near, it chooses
// the newest one that shares text with the prompt after the difference.
func (m Match) compare(decode func([]int32) string) difference {
	at := m.CommonTokens
	for _, s := range m.nearest {
		if at == len(s.Tokens) || at == len(m.prompt) {
			return difference{sequence: s, cause: Continued, advice: adviceNothing}
		}
	}
	d := difference{sequence: m.nearest[0]}
	run := 0
	for _, s := range m.nearest {
		if run = longestCommonRun(s.Tokens[at:], m.prompt[at:]); run > 0 {
			d.sequence = s
			break
		}
	}
	if run > 0 {
		d.knownAfter = min(len(d.sequence.Tokens), len(m.prompt)) - at
	}
	if decode == nil {
		d.cause, d.advice = MessageEdited, adviceMessage
		return d
	}
	was, hasUser := textTo(d.sequence.Tokens, decode, userMarks)
	is, alsoHasUser := textTo(m.prompt, decode, userMarks)
	if hasUser && alsoHasUser && was != is {
		m.compareHeads(&d, was, is)
		return d
	}
	m.compareMessages(&d, decode, run, hasUser && alsoHasUser)
	return d
}

// compareHeads describes a difference in the text before the first user message.
func (m Match) compareHeads(d *difference, was, is string) {
	at := firstDifference(was, is)
	d.before, d.was, d.is = show(was, is, at)
	run := longestCommonRun([]byte(was[at:]), []byte(is[at:]))
	rest := min(len(was)-at, len(is)-at, commonRunWindow)
	// sameAgent: the two heads are versions of one system prompt
	sameAgent := m.CommonTokens >= 2*minReportedTokens || run >= 4*boilerplate && 2*run >= rest
	before, after := findTools(was), findTools(is)
	cause, name := compareTools(before, after)
	inTools := cause != "" &&
		(at >= before.from && at <= before.to || at >= after.from && at <= after.to)
	named := ""
	if name != "" {
		named = " (here " + front(name) + ")"
	}
	switch {
	case inTools && cause == ToolsReordered:
		d.cause, d.advice = cause,
			"The client should list its tools, and the keys of each tool, in the same order "+
				"every time"+named+"."
	case differsIn(dates, was, is, at):
		d.cause, d.advice = DateChanged,
			"Move the date or time to the end of the prompt, or include only the day: "+
				"everything after it was computed again."
	case sameAgent && !inTools && differsIn(ids, was, is, at):
		d.cause, d.advice = CounterChanged,
			"Remove the number or ID that differs in every request from the system prompt, or "+
				"move it to the prompt's end."
	case sameAgent && cause == ToolsChanged && (inTools || before.text == "" || after.text == ""):
		d.cause, d.advice = cause,
			"Tools come before everything else: change them between conversations, not within "+
				"one"+named+"."
	case sameAgent:
		d.cause, d.advice = HeadChanged, adviceHead
	default:
		d.cause, d.advice, d.knownAfter = NewConversation, adviceNothing, 0
	}
}

// compareMessages describes a difference after the head. roles reports whether both texts mark
// their user messages.
func (m Match) compareMessages(d *difference, decode func([]int32) string, run int, roles bool) {
	from := max(0, m.CommonTokens-windowTokens/2)
	window := func(tokens []int32) string {
		return valid(decode(tokens[from:min(len(tokens), m.CommonTokens+windowTokens)]))
	}
	was, is := window(d.sequence.Tokens), window(m.prompt)
	at := firstDifference(was, is)
	d.before, d.was, d.is = show(was, is, at)
	rest := len(d.sequence.Tokens) - m.CommonTokens
	switch {
	case reasoningDropped(was, is, at):
		d.cause, d.advice = ThinkingStripped, adviceThinking
		if reasoning, _ := reasoningAt(was, at); reasoning == "" {
			d.cause, d.advice = Retokenized, adviceEmptyThinking
		}
	case rest < boilerplate:
		// Only the end of the answer differs: a stop string cut it off, or its last tokens changed.
		d.cause, d.advice = Continued, adviceNothing
	case at == len(was) || at == len(is):
		d.cause, d.advice = Retokenized, adviceRetokenize
	case run > 0 && differsIn(dates, was, is, at):
		d.cause, d.advice = DateChanged,
			"The client changes a date or time in an earlier message. It should not change "+
				"messages that it has sent."
	case run > 0 && differsIn(ids, was, is, at):
		d.cause, d.advice = CounterChanged,
			"The client changes a number or an ID in an earlier message. It should not change "+
				"messages that it has sent."
	case roles && m.otherOpening(d.sequence.Tokens, decode), !roles && run == 0 &&
		m.CommonTokens < minReportedTokens:
		d.cause, d.advice, d.knownAfter = NewConversation, adviceNothing, 0
	default:
		d.cause, d.advice = MessageEdited, adviceMessage
	}
}

// otherOpening reports whether the first user messages differ and nothing after them is the same.
// Then the texts are different conversations.
func (m Match) otherOpening(known []int32, decode func([]int32) string) bool {
	was, found := textTo(known, decode, assistantMarks)
	is, alsoFound := textTo(m.prompt, decode, assistantMarks)
	if was == is {
		return false
	}
	if !found || !alsoFound {
		return true
	}
	answered := func(tokens []int32, opening string) string {
		text := valid(decode(tokens[:min(len(tokens), maxHeadTokens)]))
		return text[min(len(text), len(opening)):]
	}
	const enough = 64 // bytes: more than a template's text at the beginning of an answer
	return firstDifference(answered(known, was), answered(m.prompt, is)) < enough
}

// reasoningDropped reports whether the old text has reasoning, or an empty block of it, at the
// given byte offset, and the new text has none there or has emptied it.
func reasoningDropped(was, is string, at int) bool {
	a, hadReasoning := reasoningAt(was, at)
	b, hasReasoning := reasoningAt(is, at)
	return hadReasoning && !(hasReasoning && (a == "" || b != ""))
}

// reasoningAt returns the reasoning that contains s[at] or, after white space, begins there.
func reasoningAt(s string, at int) (reasoning string, ok bool) {
	const begin, end = "<think>", "</think>"
	next := len(s) - len(strings.TrimLeft(s[at:], "\n "))
	open := strings.LastIndex(s[:min(len(s), next+len(begin))], begin)
	if open < 0 {
		return "", false
	}
	inside, _, closed := strings.Cut(s[open+len(begin):], end)
	if closed && open+len(begin)+len(inside)+len(end) <= at {
		return "", false // it ends before s[at]
	}
	return strings.TrimSpace(inside), true
}

// commonRunWindow is the number of tokens or bytes after a difference that are compared.
const commonRunWindow = 8192

// longestCommonRun returns the length of the longest common substring of a and b, which differ in
// their first element. It returns 0 if no common substring has at least boilerplate elements.
func longestCommonRun[E byte | int32](a, b []E) int {
	a, b = a[:min(len(a), commonRunWindow)], b[:min(len(b), commonRunWindow)]
	if len(a) < boilerplate || len(b) < boilerplate {
		return 0
	}
	places := make(map[uint64]int, len(a))
	hashes(a, func(i int, h uint64) {
		if _, ok := places[h]; !ok {
			places[h] = i
		}
	})
	longest, until := 0, 0
	hashes(b, func(j int, h uint64) {
		if i, ok := places[h]; ok && j >= until {
			if run := commonPrefix(a[i:], b[j:]); run >= boilerplate {
				longest, until = max(longest, run), j+run
			}
		}
	})
	return longest
}

// hashes calls visit with a rolling hash of every substring of boilerplate elements.
func hashes[E byte | int32](tokens []E, visit func(from int, hash uint64)) {
	const factor = 0x9e3779b97f4a7c15 // 2^64 divided by the golden ratio: odd and well mixed
	// drop is the factor of the token that leaves the window.
	var hash, drop uint64 = 0, 1
	for range boilerplate + 1 {
		drop *= factor
	}
	for i, t := range tokens {
		hash = (hash + uint64(t) + 1) * factor
		if i >= boilerplate {
			hash -= drop * (uint64(tokens[i-boilerplate]) + 1)
		}
		if i >= boilerplate-1 {
			visit(i-boilerplate+1, hash)
		}
	}
}
