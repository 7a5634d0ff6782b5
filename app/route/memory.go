package route

// What this machine remembers of the requests that it has sent: the conversations, and which
// engines have got which prefixes. It tells which machines to ask for their caches, and stands in
// for the answer of those that are not asked or do not answer.

import (
	"container/list"
	"slices"
	"sync"
	"time"
)

// memory remembers requests. Its methods are safe for concurrent use.
type memory struct {
	sessions  *sessions
	responses *sessions // stored ones, by responseSession

	mu     sync.Mutex
	places map[engineHash]*list.Element
	order  list.List // of *place, the most recent first
}

// place says which engines have got a prefix.
type place struct {
	prefix engineHash
	// engines are IDs, the most recent last.
	engines []string
}

const (
	// maxPlaces is how many prefixes are remembered: about 20 MB. A prompt has a dozen.
	maxPlaces = 100_000
	// maxEngines is how many engines are remembered for a prefix.
	maxEngines = 8
	// maxAsked is how many engines are asked for what they have cached. The others' caches are
	// guessed.
	maxAsked = 8
)

func newMemory() *memory {
	return &memory{sessions: newSessions(), responses: newSessions(),
		places: map[engineHash]*list.Element{}}
}

// depths calls do with 1, 2, 4 and so on, and with n: the lengths of the prefixes, in blocks, that
// are remembered.
func depths(n int, do func(blocks int)) {
	for d := 1; d < n; d *= 2 {
		do(d)
	}
	if n > 0 {
		do(n)
	}
}

// prepare adds to the engines with these IDs what is remembered, for a request of a conversation.
// chain has the hashes of the prompt's blocks; it may be empty. ask are the indexes of the engines
// that may have most of the prompt. able reports whether an engine can be asked.
func (m *memory) prepare(of session, chain []engineHash, ids []string, list []Candidate,
	able func(i int) bool) (ask []int) {
	m.sessions.prepare(of, ids, list)
	for i := range list {
		list[i].Order = order(of, ids[i])
	}
	m.believe(chain, ids, list)
	ask = make([]int, 0, len(list))
	for i := range list {
		if able(i) {
			ask = append(ask, i)
		}
	}
	if len(ask) > maxAsked {
		slices.SortFunc(ask, func(a, b int) int {
			switch x, y := &list[a], &list[b]; {
			case x.Sticky != y.Sticky:
				return before(x.Sticky)
			case x.MemoryTokens != y.MemoryTokens:
				return y.MemoryTokens - x.MemoryTokens
			case x.Requests != y.Requests:
				return x.Requests - y.Requests
			default:
				return before(x.Order > y.Order)
			}
		})
		ask = ask[:maxAsked]
	}
	return ask
}

func before(first bool) int {
	if first {
		return -1
	}
	return 1
}

// believe sets the tokens that the engines have got of the prompt, as far as they are remembered.
func (m *memory) believe(chain []engineHash, ids []string, list []Candidate) {
	m.mu.Lock()
	defer m.mu.Unlock()
	depths(len(chain), func(blocks int) {
		e := m.places[chain[blocks-1]]
		if e == nil {
			return
		}
		for _, id := range e.Value.(*place).engines {
			if i := slices.Index(ids, id); i >= 0 {
				list[i].MemoryTokens = max(list[i].MemoryTokens, blocks*prefixBlock)
			}
		}
	})
}

// note remembers that an engine gets a request. tokens is the length of its prompt.
func (m *memory) note(of session, chain []engineHash, id string, tokens int, now time.Time) {
	m.sessions.note(of, id, tokens, now)
	m.mu.Lock()
	defer m.mu.Unlock()
	depths(len(chain), func(blocks int) {
		prefix := chain[blocks-1]
		e := m.places[prefix]
		if e == nil {
			e = m.order.PushFront(&place{prefix: prefix})
			m.places[prefix] = e
		} else {
			m.order.MoveToFront(e)
		}
		p := e.Value.(*place)
		if i := slices.Index(p.engines, id); i >= 0 {
			p.engines = slices.Delete(p.engines, i, i+1)
		} else if len(p.engines) == maxEngines {
			p.engines = slices.Delete(p.engines, 0, 1)
		}
		p.engines = append(p.engines, id)
	})
	for m.order.Len() > maxPlaces {
		oldest := m.order.Back()
		delete(m.places, oldest.Value.(*place).prefix)
		m.order.Remove(oldest)
	}
}
