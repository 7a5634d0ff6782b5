package draft

// The tokens from which drafts of a conversation are chosen, if not from the whole vocabulary. A
// list makes a step of the drafter shorter, but a token that it lacks is never drafted. So it is
// counted how many tokens of the conversation were on the list when they came, and the speeds with
// and without it are compared.

import (
	"slices"

	"headroom/engine/batch"
)

// List is the list of one conversation. NewList makes one.
type List struct {
	short batch.Shortlist // Between has tokens of the conversation
	next  int             // where the next of them goes, once there are MaxListed
	on    share           // tokens that were on the list
	using bool            // the list was preferred
	began bool            // Prefer has decided
}

const (
	// MaxListed is how many tokens of a conversation a list has beside the others.
	MaxListed = 512
	// listPrompt is how many tokens of a prompt count, the last ones.
	listPrompt = 4096
	// firstListed is the share of tokens on the list that is assumed before anything is known.
	firstListed, firstListedWeight = 0.9, 4
	// listGain is how many times as fast the other kind of step has to be for a change to it.
	listGain = 1.02
)

// NewList returns the list of a conversation that begins with a prompt.
func NewList(short batch.Shortlist, prompt []int32) *List {
	l := &List{short: short}
	l.short.Between = make([]int32, 0, MaxListed)
	for _, token := range prompt[max(0, len(prompt)-listPrompt):] {
		l.Observe(token)
	}
	return l
}

// Observe records the next token of the conversation, which is then on the list.
func (l *List) Observe(token int32) {
	s := &l.short
	on := s.Ends(token) || slices.Contains(s.Between, token)
	l.on.average(on)
	switch {
	case on:
	case len(s.Between) < MaxListed:
		s.Between = append(s.Between, token)
	default:
		s.Between[l.next], l.next = token, (l.next+1)%MaxListed
	}
}

// Latest returns the tokens of the conversation on the list, at most n, which is at most MaxListed.
// They are the latest ones, unless there have been more than MaxListed.
func (l *List) Latest(n int) []int32 {
	b := l.short.Between
	return b[max(0, len(b)-n):]
}

// On returns the probability that the next token is on the list.
func (l *List) On() float64 { return l.on.rate(firstListed, firstListedWeight) }

// Prefer reports whether drafting from the list makes the pass faster than drafting from the whole
// vocabulary. whole and list are the times of steps of each kind, with so many rows. It changes its
// mind only for a clear gain.
func (l *List) Prefer(r *Round, c *Chain, whole, list *Times, most, rows int) bool {
	// What is known about the drafter is how it drafts in the way that is in use.
	withWhole := c.Next()
	withList := withWhole * l.On()
	if l.using {
		withWhole, withList = min(1, withWhole/l.On()), withWhole
	}
	speed := func(times *Times, next float64) float64 {
		with := *r
		with.Drafter = times
		return with.chainSpeed(next, with.lastStep(rows), most)
	}
	short, long := speed(list, withList), speed(whole, withWhole)
	switch {
	case !l.began:
		l.using = short > long
	case l.using:
		l.using = long <= listGain*short
	default:
		l.using = short > listGain*long
	}
	l.began = true
	return l.using
}

// chainSpeed returns the speed of the pass with the number of drafts, from 1 to most, that makes it
// fastest. Each is right with the probability next if those before it are, and takes so long.
func (r *Round) chainSpeed(next, step float64, most int) (best float64) {
	chance, right := 1.0, 0.0
	for d := 1; d <= min(most, r.measurable()); d++ {
		chance *= next
		right += chance
		best = max(best, r.Speed(d, right, float64(d)*step))
	}
	return best
}
