package sched

// Several requests often begin with the same long text: an agent starts three others, or a client
// retries before the first answer. Only the first request, the leader, computes the shared part.
// The others, its followers, wait until that part is in the prefix tree.

import (
	"slices"

	"headroom/engine/prefix"
)

// followPages is the minimum number of pages that a follower must save. Computing fewer pages is
// faster than waiting for the end of a pass.
const followPages = 2

// tryFollow makes the waiting sequence q follow leader, whose prompt is being computed. It does so
// only if that saves enough pages, and more than the present leader of q. The new leader will keep
// its state where the two diverge, so that q can resume there.
func (s *Scheduler) tryFollow(leader, q *Sequence) {
	known := leader.Tokens[:len(leader.Tokens)-leader.Drafts]
	if leader.Select.Prompt > 0 { // later tokens are not cached
		known = leader.Tokens[:leader.Select.Prompt]
	}
	if leader.Background && !q.Background {
		return // the leader may stand still for as long as q runs
	}
	if s.tree == nil || q == leader || q.Space != leader.Space || q.Whole || leader.NoCache ||
		len(known)-leader.Computed <= 1 {
		return
	}
	least := followPages * s.o.PageTokens
	shared := prefix.Common(q.Tokens[:q.Resumable()], known)
	if shared <= leader.Computed || shared < least || q.following() && shared <= q.shared {
		return
	}
	if _, cached := s.tree.In(q.Space).Probe(q.Tokens, shared); shared-cached < least {
		return
	}
	q.leader, q.shared = leader, shared
	if i, found := slices.BinarySearch(leader.Keep, shared); !found {
		leader.Keep = slices.Insert(leader.Keep, i, shared)
	}
}

// following reports whether q has to wait because its leader is still computing the shared part.
func (q *Sequence) following() bool {
	return q.leader != nil && q.leader.running && q.leader.Computed < q.shared
}
