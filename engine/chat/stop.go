package chat

// Stop strings, matched on text and not on tokens, since a model may spell one in several ways.

import "strings"

// StopMatcher ends a text at the first stop string in it, while the text arrives
// in pieces. Text that could be the beginning of a stop string is held back, so
// that no part of a stop string is ever shown.
//
// The first match is the one that is complete earliest; if two end at the same
// place, the longer one, which removes more. That choice depends on the text
// alone, never on where it was cut into pieces.
//
// It is not safe for concurrent use.
type StopMatcher struct {
	stops   []string
	held    string
	stopped bool
}

// NewStopMatcher returns a matcher for the stop strings; empty ones count as not
// given, and with none every text passes at once.
func NewStopMatcher(stops []string) *StopMatcher {
	m := &StopMatcher{}
	for _, s := range stops {
		if s != "" {
			m.stops = append(m.stops, s)
		}
	}
	return m
}

// Add takes the next text. It returns what may be shown now, and whether a stop
// string was completed; after that, Add returns "" and true.
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

// Close ends the text and returns what was held back: the beginning of a stop
// string that never came.
func (m *StopMatcher) Close() string {
	held := m.held
	m.held = ""
	return held
}

// find returns where the first completed stop string begins.
func (m *StopMatcher) find() (from int, ok bool) {
	bestEnd := len(m.held) + 1
	for _, s := range m.stops {
		// Only matches that end before the best so far are of interest.
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
