package route

// Which engine answered a conversation last, and how much of it.

import (
	"container/list"
	"sync"
	"time"
)

const (
	// maxSessions is how many conversations are remembered: about 10 MB.
	maxSessions = 50_000
	// activeTime is how long a conversation counts for Candidate.Conversations.
	activeTime = 10 * time.Minute
)

// sessions remembers conversations. Its methods are safe for concurrent use.
type sessions struct {
	mu     sync.Mutex
	known  map[session]*list.Element
	active list.List // of *lastAnswer, the most recent first
	idle   list.List // those after activeTime
	count  map[string]int
}

// lastAnswer is the last answer to a request of a conversation.
type lastAnswer struct {
	session session
	engine  string // its ID; hereID is this machine
	tokens  int    // of the prompt; may be estimated
	at      time.Time
	idle    bool
}

func newSessions() *sessions {
	return &sessions{known: map[session]*list.Element{}, count: map[string]int{}}
}

// last returns the ID of the engine that answered a conversation last. ok is false if it is new.
func (s *sessions) last(of session) (engine string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.known[of]
	if e == nil {
		return "", false
	}
	return e.Value.(*lastAnswer).engine, true
}

// prepare adds to the engines with these IDs what is known of a conversation.
func (s *sessions) prepare(of session, ids []string, list []Candidate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var last *lastAnswer
	if e := s.known[of]; e != nil {
		last = e.Value.(*lastAnswer)
	}
	for i := range list {
		list[i].Conversations = s.count[ids[i]]
		if last != nil && last.engine == ids[i] {
			list[i].Sticky, list[i].MemoryTokens = true, last.tokens
		}
	}
}

// note remembers that an engine answers a conversation now.
func (s *sessions) note(of session, engine string, tokens int, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.known[of]; e != nil {
		s.remove(e)
	}
	s.known[of] = s.active.PushFront(&lastAnswer{session: of, engine: engine, tokens: tokens,
		at: now})
	s.count[engine]++
	for e := s.active.Back(); e != nil && now.Sub(e.Value.(*lastAnswer).at) > activeTime; {
		a, before := e.Value.(*lastAnswer), e.Prev()
		s.remove(e)
		a.idle = true
		s.known[a.session] = s.idle.PushFront(a)
		e = before
	}
	if len(s.known) > maxSessions {
		oldest := s.idle.Back()
		if oldest == nil {
			oldest = s.active.Back()
		}
		s.remove(oldest)
	}
}

// remove forgets a conversation. mu is locked.
func (s *sessions) remove(e *list.Element) {
	a := e.Value.(*lastAnswer)
	delete(s.known, a.session)
	if a.idle {
		s.idle.Remove(e)
		return
	}
	s.active.Remove(e)
	if s.count[a.engine]--; s.count[a.engine] == 0 {
		delete(s.count, a.engine)
	}
}
