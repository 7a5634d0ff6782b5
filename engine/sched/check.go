package sched

import "fmt"

// CheckIdle returns an error unless all memory is free or in the prefix tree. It is for tests. The
// scheduler must have no sequences, holds or promotions left.
func (s *Scheduler) CheckIdle() error {
	if n := len(s.running) + len(s.waiting) + len(s.newPromotions) + len(s.promoting); n > 0 {
		return fmt.Errorf("sched: %d sequences and promotions are left, expected none", n)
	}
	if len(s.slots) != s.o.Slots {
		return fmt.Errorf("sched: %d of %d slots are free", len(s.slots), s.o.Slots)
	}
	if len(s.spare) != s.o.DraftSlots {
		return fmt.Errorf("sched: %d of %d slots for drafts are free", len(s.spare),
			s.o.DraftSlots)
	}
	refs := make([]int32, s.o.Pages)
	if s.tree != nil {
		s.tree.Each(func(page int32) { refs[page]++ })
		if n := s.tree.Slots(); n != s.o.StateSlots {
			return fmt.Errorf("sched: %d of %d state slots are free or hold a state", n,
				s.o.StateSlots)
		}
	}
	for page, want := range refs {
		if got := s.pool.Refs(int32(page)); got != want || want > 1 {
			return fmt.Errorf("sched: page %d has %d references, the tree holds %d", page, got,
				want)
		}
	}
	return nil
}
