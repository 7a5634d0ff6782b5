package chat

// Stop strings are matched on text, not on tokens, since different token sequences can spell the
// same string.

import (
	"strings"
	"unicode"
)

// StopMatcher cuts a text that arrives in pieces at its first stop string. Text that could be the
// beginning of a stop string is held back, so that no part of a stop string is ever shown.
//
// The first match is the one that ends first. If two end at the same position, the longer one wins.
// So the result depends on the text alone, not on the pieces.
//
// A StopMatcher is not safe for concurrent use.
type StopMatcher struct {
	stops   []string
	held    string
	stopped bool
	blank   bool   // pass leading white space unmatched
	match   string // the stop string that was found
}

// NewStopMatcher returns a matcher for the stop strings. Empty ones are ignored. Without stop
// strings Add returns every text immediately.
func NewStopMatcher(stops []string) *StopMatcher {
	m := &StopMatcher{}
	for _, s := range stops {
		if s != "" {
			m.stops = append(m.stops, s)
		}
	}
	return m
}

// NewContentMatcher returns a matcher for the content of a chat's answer. It looks for stop strings
// from the first visible character on: many models begin with line breaks, and clients send "\n" to
// get one line.
func NewContentMatcher(stops []string) *StopMatcher {
	m := NewStopMatcher(stops)
	m.blank = true
	return m
}

// Add adds the next piece of text. It returns the text that may be shown now, and
// whether a stop string is complete. After that, Add returns "" and true.
func (m *StopMatcher) Add(text string) (show string, stopped bool) {
	if m.stopped {
		return "", true
	}
	if len(m.stops) == 0 {
		return text, false
	}
	if m.blank {
		visible := strings.TrimLeftFunc(text, unicode.IsSpace)
		if show = text[:len(text)-len(visible)]; visible == "" {
			return show, false
		}
		m.blank, text = false, visible
	}
	m.held += text
	if from, ok := m.find(); ok {
		show += m.held[:from]
		m.held, m.stopped = "", true
		return show, true
	}
	hold := 0
	for _, s := range m.stops {
		hold = max(hold, overlap(m.held, s))
	}
	show += m.held[:len(m.held)-hold]
	m.held = m.held[len(m.held)-hold:]
	return show, false
}

// Match returns the stop string that Add has found, "" if there is none.
func (m *StopMatcher) Match() string { return m.match }

// Close ends the text and returns the text held back: the beginning of a stop string that was not
// completed. Text added later is matched on its own.
func (m *StopMatcher) Close() string {
	held := m.held
	m.held = ""
	return held
}

// find returns the index at which the first complete stop string begins.
func (m *StopMatcher) find() (from int, ok bool) {
	bestEnd := len(m.held) + 1
	for _, s := range m.stops {
		// A match that ends after the best one so far cannot win.
		i := strings.Index(m.held[:min(len(m.held), bestEnd)], s)
		if i < 0 {
			continue
		}
		if end := i + len(s); end < bestEnd || end == bestEnd && i < from {
			from, bestEnd, ok = i, end, true
			m.match = s
		}
	}
	return from, ok
}
