package loop

import (
	"cmp"
	"log/slog"
)

// Shrink evicts cached prefixes, least recently used first, until their pages take at most
// keepBytes bytes, and returns the memory of free pages and of free kept states to the system. It
// returns how many bytes that were. The states of prefixes that stay, the slots of sequences and
// the cache of a draft model are not counted, and stay. The caches grow again after the next
// SetGrowth. No answer depends on it, and what is on disk stays there. It waits for the step in
// progress.
//
// On a device whose memory cannot be returned, which is every GPU, it does nothing.
func (l *Loop) Shrink(keepBytes int64) (freedBytes int64) {
	if !l.runner.Discards() {
		return 0
	}
	freed := make(chan int64, 1)
	l.runOnLoop(func() {
		l.takeGrowth() // an earlier limit must not replace the one of Shrink
		before := l.writtenBytes()
		var pages, slots []int32
		l.sched.Shrink(max(keepBytes, 0), l.config.SlotBytes,
			func(page int32) { pages = append(pages, page) },
			func(slot int32) { slots = append(slots, slot) })
		err := cmp.Or(l.runner.DiscardPages(pages), l.runner.DiscardSlots(slots))
		l.publishStats() // who has waited reads the new figures
		if err != nil {
			slog.Warn("unused memory of the caches could not be returned to the system", "err", err)
			freed <- 0
			return
		}
		freed <- before - l.writtenBytes()
	})
	select {
	case n := <-freed:
		return n
	case <-l.inbox.ended:
		return 0
	}
}

// writtenBytes returns the memory of the pages and states that were written.
func (l *Loop) writtenBytes() int64 {
	return l.pageBytes(l.sched.PeakPages()) +
		int64(l.sched.TouchedSlots())*l.config.SlotBytes
}
