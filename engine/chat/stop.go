package chat

// Stop strings are matched on text, not on tokens, since different token sequences can spell the
// same string.

import "strings"

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

// Add adds the next piece of text. It returns the text that may be shown now, and
// whether a stop string is complete. After that, Add returns "" and true.
func (m *StopMatcher) Add(text string) (show string, stopped bool) {
	if m.stopped {
		return "", true
	}
	if len(m.stops) == 0 {
		return text, false
	}
	m.held += text
	if from, ok := m.find(); ok {
		show, m.held, m.stopped = m.held[:from], "", true
		return show, true
	}
	hold := 0
	for _, s := range m.stops {
		hold = max(hold, overlap(m.held, s))
	}
	show, m.held = m.held[:len(m.held)-hold], m.held[len(m.held)-hold:]
	return show, false
}

// Close ends the text and returns the text held back: the beginning of a stop
// string that was not completed.
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
		}
	}
	return from, ok
}
