package sched

// Several requests often begin with the same long text: an agent starts three others, a client asks
// again before the first answer. Only the first computes it; the others wait until what they share
// is in the prefix tree.

import (
	"slices"

	"headroom/engine/prefix"
)

// followPages is how much a sequence must be spared to wait for another: for less, waiting for the
// end of a pass costs more.
const followPages = 2

// meet makes the waiting sequence q follow leader, whose prompt is being read, if that spares more
// than whoever it follows now. The leader keeps its state where the two part, so that q can go on
// from there.
func (s *Scheduler) meet(leader, q *Sequence) {
	if s.tree == nil || q == leader || len(leader.Tokens)-leader.Computed <= 1 {
		return
	}
	least := followPages * s.o.PageTokens
	shared := prefix.Common(q.Tokens[:len(q.Tokens)-1], leader.Tokens)
	if shared <= leader.Computed || shared < least || q.following() && shared <= q.shared {
		return
	}
	if _, known := s.tree.Probe(q.Tokens, shared); shared-known < least {
		return
	}
	q.leader, q.shared = leader, shared
	if i, found := slices.BinarySearch(leader.Keep, shared); !found {
		leader.Keep = slices.Insert(leader.Keep, i, shared)
	}
}

// following reports whether q should go on waiting: its leader is still at work on what they share.
func (q *Sequence) following() bool {
	return q.leader != nil && q.leader.running && q.leader.Computed < q.shared
}
