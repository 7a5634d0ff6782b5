package worker

// Prompts that may end the model. A request that runs whenever the process crashes is likely to be
// the cause, and its client may send it again and again. So the prompts that ran at a crash are
// remembered, as hashes in memory. Two rules protect the others:
//
//   - A prompt that ran at a crash runs again without other such prompts beside it, until it has
//     run for longer than it did before the crash.
//   - A prompt that ran at two crashes, as the only one that could be the cause, is refused.
//
// Only crashes that a request may have caused count (ending.mayBeTheRequest). A prompt that was
// answered to its end is no longer suspected.

import (
	"fmt"
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"headroom/engine/problem"
)

const (
	crashesOfSuspect = 2
	suspectTime      = time.Hour // after its last crash, a prompt is no longer suspected
	maxSuspects      = 256
	// A suspect's trial lasts trialExtra longer than it had run before the crash, and at most
	// maxTrial.
	trialExtra = 5 * time.Second
	maxTrial   = time.Minute
)

// Suspects remembers prompts that ran when a process crashed. Pass the same one to all workers of a
// server. Its methods are safe for concurrent use; a nil *Suspects suspects nobody.
type Suspects struct {
	now  func() time.Time
	seed maphash.Seed

	mu       sync.Mutex
	known    map[uint64]*suspect
	trial    uint64 // the suspect that runs without others; 0: none
	trialEnd time.Time
}

type suspect struct {
	crashes int           // at which it ran
	last    time.Time     // of these
	lived   time.Duration // how long it had run at the last one
	why     string        // the reason of the last one
	refused bool
}

// NewSuspects returns an empty Suspects.
func NewSuspects() *Suspects {
	return &Suspects{now: time.Now, seed: maphash.MakeSeed(), known: map[uint64]*suspect{}}
}

// key returns the key of a prompt for a model, never 0.
func (s *Suspects) key(model string, prompt []int32) uint64 {
	if s == nil {
		return 0
	}
	var h maphash.Hash
	h.SetSeed(s.seed)
	_, _ = h.WriteString(model)
	for _, token := range prompt {
		_, _ = h.Write([]byte{byte(token), byte(token >> 8), byte(token >> 16), byte(token >> 24)})
	}
	return max(h.Sum64(), 1)
}

// admit returns a Problem if the prompt may not run, or not now.
func (s *Suspects) admit(key uint64) error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	known, now := s.known[key], s.now()
	switch {
	case known == nil:
		return nil
	case now.Sub(known.last) >= suspectTime:
		delete(s.known, key)
		return nil
	case known.refused:
		return problem.New(problem.CrashesModel, "This request ended the model twice",
			"the model's process ended each time it ran: "+known.why,
			fmt.Sprintf("Change the prompt, and report it with the log. It is refused until %s, "+
				"so that others are answered.", known.last.Add(suspectTime).Format(time.TimeOnly)))
	case s.trial != 0 && s.trial != key && now.Before(s.trialEnd):
		p := problem.New(problem.Busy, "This request ran when the model crashed",
			"it waits until another one that did has run longer than before", "Try again.")
		p.RetryAfter = time.Second
		return p
	}
	s.trial, s.trialEnd = key, now.Add(min(known.lived+trialExtra, maxTrial))
	return nil
}

// ended records that a prompt's request has ended, and whether it was answered to its end.
func (s *Suspects) ended(key uint64, answered bool) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.trial == key {
		s.trial = 0
	}
	if k := s.known[key]; answered && k != nil && !k.refused {
		delete(s.known, key)
	}
}

// crashed records the prompts that ran when a process crashed, and since when.
func (s *Suspects) crashed(running map[uint64]time.Time, e ending) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now, trial := s.now(), s.trial
	inTrial := trial != 0 && now.Before(s.trialEnd)
	s.trial = 0
	if !e.mayBeTheRequest {
		return
	}
	var again []uint64 // which ran at an earlier crash, too
	for key, since := range running {
		k := s.known[key]
		if k == nil || now.Sub(k.last) >= suspectTime {
			s.makeRoom(now)
			k = &suspect{}
			s.known[key] = k
		}
		k.crashes++
		k.last, k.lived, k.why = now, now.Sub(since), e.reason
		if k.crashes >= crashesOfSuspect {
			again = append(again, key)
		}
	}
	if inTrial && slices.Contains(again, trial) {
		again = []uint64{trial} // the others have run for longer than they did before
	}
	if len(again) == 1 {
		s.known[again[0]].refused = true
	}
}

// makeRoom forgets the oldest suspect if there are too many. The caller holds mu.
func (s *Suspects) makeRoom(now time.Time) {
	var oldest uint64
	age := time.Duration(-1)
	for key, k := range s.known {
		if a := now.Sub(k.last); a > age {
			oldest, age = key, a
		}
	}
	if len(s.known) >= maxSuspects {
		delete(s.known, oldest)
	}
}
