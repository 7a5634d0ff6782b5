package loop

// Which head the steps of the model's own block compute: the whole one, or the rows of a shortlist
// of the vocabulary. The block of a mixture of experts is a layer of few active weights, so most of
// the time of a step is the head's. A list has the frequent tokens and those of the conversation.
// Where too many tokens come that are on neither, as in some languages, the whole head is faster.
//
// A pass has one kind of head. Both are measured: at first some steps of each, and later one step
// now and then of the kind that is not in use.

import (
	"headroom/engine/batch"
	"headroom/engine/draft"
)

// heads is the state of chains that concerns the head.
type heads struct {
	short     *batch.Shortlist // the tokens on the list of each conversation; nil: there is no list
	listTimes draft.Times      // of steps with a list
	listed    bool             // steps before the pass that is planned have a list
	list      batch.Shortlist  // that of a step

	// Steps with the whole head and with a list: how many were measured, and how many of the other
	// kind have been since the last one.
	steps, since [2]int
}

const (
	firstSteps = 3   // steps of each kind that are measured before one is preferred
	otherSteps = 256 // after so many of one kind, the next is of the other
)

// kind returns the index of the current kind in heads.steps.
func (h *heads) kind() int {
	if h.listed {
		return 1
	}
	return 0
}

// stepTimes returns the times of steps of the current kind.
func (c *chains) stepTimes() *draft.Times {
	if c.listed {
		return &c.listTimes
	}
	return &c.times
}

// observeHead records that a step of the current kind was measured.
func (h *heads) observeHead() {
	k := h.kind()
	h.steps[k], h.since[k] = h.steps[k]+1, 0
	h.since[1-k]++
}

// chooseHead decides whether the steps before the pass that is being planned have a list: if each
// sequence for which the drafter may draft prefers it.
func (l *Loop) chooseHead() {
	c := &l.drafts.chains
	if c.short == nil {
		return
	}
	rows, prefer := 0, c.steps[0] >= firstSteps && c.steps[1] >= firstSteps
	for _, r := range l.requests {
		if r.list != nil && r.decodes() {
			rows++
		}
	}
	for _, r := range l.requests {
		if r.list != nil && r.decodes() && prefer {
			prefer = r.list.Prefer(&c.round, &r.chain, &c.times, &c.listTimes, c.most, rows)
		}
	}
	c.choose(prefer)
	c.round.Drafter = c.stepTimes()
}

// choose sets listed: to prefer, unless steps of a kind have to be measured.
func (h *heads) choose(prefer bool) {
	switch h.listed = prefer; {
	case h.steps[0] < firstSteps:
		h.listed = false
	case h.steps[1] < firstSteps:
		h.listed = true
	case h.since[1-h.kind()] >= otherSteps:
		h.listed = !h.listed
	}
}

// shortlist returns the list for a step that drafts for these sequences; nil: it has none. Several
// of the same owner share what a list may have of conversations. If there are other owners, or one
// of several is private, it has nothing of any: a right draft would tell that another conversation
// has the token.
func (h *heads) shortlist(active []chain) *batch.Shortlist {
	if !h.listed {
		return nil
	}
	between := h.list.Between[:0]
	h.list = *h.short
	first := active[0].work.Seq.Owner.(*request)
	for i := range active {
		r := active[i].work.Seq.Owner.(*request)
		if r.Owner != first.Owner || r.Private && len(active) > 1 {
			between = between[:0]
			break
		}
		if r.list != nil {
			between = append(between, r.list.Latest(draft.MaxListed/len(active))...)
		}
	}
	h.list.Between = between
	return &h.list
}

// tokenOf returns the token of an index in the logits of the last step.
func (h *heads) tokenOf(index int32) int32 {
	if h.listed {
		return h.list.Token(index)
	}
	return index
}
