package draft

// How many tokens to propose. A proposal of d tokens makes a pass 1+d rows long in place of one. It
// is worth its time if the tokens that it is expected to yield cost less each than without it.
//
// The expected yield rests on hits: for each length of match, the share of tokens that came as
// expected. It is measured whether or not a proposal was made, since what the index expects can be
// compared with what the model chose. So a text with nothing to copy costs nothing, and copies are
// noticed without a trial. The cost rests on the measured times of passes by their number of rows.

import (
	"cmp"
	"slices"
)

// hitClasses are the classes of matches: by length, from 3, 4, 6, 10, 18 and 34 tokens.
const hitClasses = 6

// Hits is the share of expected tokens that came, by length of match. The zero value is what is
// assumed before anything is known.
type Hits struct {
	// Before is what was known before the first observation, and learns all of them; nil: nothing.
	Before *Hits
	shares [hitClasses]share
	// window is the bound of a proposal, less firstWindow. The bound grows by one with a token that
	// came as expected, and is halved by another one: a text copies or does not, and the rates,
	// which are averages over texts, notice it late.
	window int
}

var firstHits = [hitClasses]float64{0.3, 0.4, 0.55, 0.7, 0.8, 0.85}

const (
	firstWeight = 8 // how many observations count as much as what was known before
	firstWindow = 2 // the bound of the first proposal
)

func hitClass(match int) int {
	class := 0
	for limit := gram + 1; match >= limit && class < hitClasses-1; limit = limit*2 - 2 {
		class++
	}
	return class
}

// Observe records whether the token that a match of this length expected has come.
func (h *Hits) Observe(match int, hit bool) {
	if h.Before != nil {
		h.Before.Observe(match, hit)
	}
	h.shares[hitClass(match)].observe(hit)
	window := h.window + firstWindow
	if hit {
		window = min(window+1, MaxTokens)
	} else {
		window /= 2
	}
	h.window = window - firstWindow
}

// Rate returns the probability that the token which a match of this length expects will come.
func (h *Hits) Rate(match int) float64 {
	c := hitClass(match)
	first := firstHits[c]
	if h.Before != nil {
		first = h.Before.Rate(match)
	}
	return h.shares[c].rate(first, firstWeight)
}

// MaxRows is the largest number of rows whose time Times measures.
const MaxRows = 64

// Times measures how long passes that only decode take, by their number of rows. The zero value
// assumes that a row more costs a tenth of a pass with one row.
type Times struct {
	seconds [MaxRows + 1]float64 // moving averages; 0: not measured
	at      [MaxRows + 1]int     // the number of passes when it was last measured
	rest    [MaxRows + 1]int     // passes after which a measurement is old; 0: oldPasses
	count   [MaxRows + 1]int     // of measurements, up to sureCount
	passes  int
}

const (
	assumedSlope = 0.1
	// weight of a new measurement. A faster one counts more, since what makes a pass slower than it
	// has to be is mostly other work of the computer.
	slowerWeight, fasterWeight = 0.05, 0.2
	// After so many passes a measurement is old. What is then assumed is half as much dearer than
	// one row, so that what another program once made slow is tried again. If that finds nothing
	// new, the next measurement is old after twice as many passes.
	oldPasses, mostOldPasses = 512, 1 << 14
	sameTime                 = 0.8 // a new measurement of more than this share of the old one
	// The first measurements may be far too long, for example since a GPU prepares its kernels. Up
	// to sureCount, one that takes less than half as long replaces them. Until then they are old
	// after unsurePasses, and what is assumed of passes that were never measured is tried again.
	sureCount, unsurePasses = 3, 16
)

// Observe records the duration of a pass.
func (t *Times) Observe(rows int, seconds float64) {
	t.passes++
	if rows < 1 || rows > MaxRows || seconds <= 0 {
		return
	}
	s := &t.seconds[rows]
	old := t.isOld(rows) && !t.isUnsure(rows)
	if old {
		t.rest[rows] = min(2*max(t.rest[rows], oldPasses), mostOldPasses)
		if seconds < sameTime**s {
			t.rest[rows] = 0
		}
	}
	switch {
	case *s == 0:
		*s = seconds
	case t.count[rows] < sureCount && seconds < *s/2:
		*s = seconds
	case old:
		*s += (seconds - *s) / 2
	case seconds < *s:
		*s += fasterWeight * (seconds - *s)
	default:
		*s += slowerWeight * (seconds - *s)
	}
	t.at[rows] = t.passes
	t.count[rows] = min(t.count[rows]+1, sureCount)
}

// Tick counts a pass that is not measured here, so that measurements become old.
func (t *Times) Tick() { t.passes++ }

// isOld reports whether the measurement for so many rows is old.
func (t *Times) isOld(rows int) bool {
	limit := max(t.rest[rows], oldPasses)
	if t.count[rows] < sureCount {
		limit = unsurePasses
	}
	return t.at[rows] > 0 && t.passes-t.at[rows] > limit
}

// isUnsure reports whether the measurement for so many rows is old and rests on a few passes.
func (t *Times) isUnsure(rows int) bool { return t.isOld(rows) && t.count[rows] < sureCount }

// Seconds returns the expected duration of a pass; 0 if nothing is known.
func (t *Times) Seconds(rows int) float64 {
	rows = min(rows, MaxRows)
	low, high := rows, rows
	for low > 0 && t.seconds[low] == 0 {
		low--
	}
	for high <= MaxRows && t.seconds[high] == 0 {
		high++
	}
	switch {
	case low == rows:
		return t.seconds[rows]
	case low == 0:
		return 0 // nothing to compare with
	case high > MaxRows:
		// Rows after the last measured ones cost at least half as much as those.
		slope := assumedSlope * t.seconds[low]
		if one := t.seconds[1]; low > 1 && one > 0 {
			slope = max(slope, (t.seconds[low]-one)/float64(low-1)/2)
		}
		return t.seconds[low] + slope*float64(rows-low)
	}
	share := float64(rows-low) / float64(high-low)
	return t.seconds[low] + share*max(0, t.seconds[high]-t.seconds[low])
}

// knows reports whether passes of so many rows, or of fewer and of more, were measured and are not
// old. With MaxRows it reports whether any was.
func (t *Times) knows(rows int) bool {
	n := min(rows, MaxRows)
	measured := func(s []float64) bool {
		return slices.ContainsFunc(s, func(seconds float64) bool { return seconds > 0 })
	}
	switch {
	case n == MaxRows:
		return measured(t.seconds[:])
	case t.seconds[n] > 0:
		return !t.isOld(n)
	}
	return measured(t.seconds[:n]) && measured(t.seconds[n:])
}

// ratio returns how many times as long a pass of rows+more rows takes as one of rows.
func (t *Times) ratio(rows, more int) float64 {
	base := t.Seconds(rows)
	if base == 0 {
		return 1 + assumedSlope*float64(more)
	}
	r := max(1, t.Seconds(rows+more)/base)
	switch n := min(rows+more, MaxRows); {
	case t.isUnsure(n):
		r = min(r, 1+assumedSlope*float64(more))
	case t.isOld(n):
		r = 1 + (r-1)/2
	}
	return r
}

// lacksPlain reports whether a pass without drafts has to be measured first, because it was not, or
// not for long.
func (t *Times) lacksPlain(rows int) bool {
	n := min(rows, MaxRows)
	return t.Seconds(n) == 0 || t.at[n] > 0 && t.passes-t.at[n] > oldPasses
}

// The least gain in speed for which tokens are proposed.
const (
	// DefaultGain is just above 1, because the measurements are not more exact.
	DefaultGain = 1.03
	// SavingGain is for a computer that saves energy. A pass with drafts computes more in the same
	// time, so it takes more power, and what is gained in time has to outweigh that.
	SavingGain = 1.25
)

// Round is a pass that is being planned, with the drafts that it verifies.
type Round struct {
	Rows    int     // of the pass without drafts, of which each yields a token
	Drafts  int     // rows of drafts
	Right   float64 // drafts that are expected to be right
	Steps   float64 // the time of the drafter's steps before the pass, in seconds
	Passes  *Times  // of passes by rows
	Drafter *Times  // of the drafter's steps by rows
	// Assumed is how long a step of the drafter is expected to take before that is measured, in
	// passes with one row; 0: a tenth.
	Assumed float64
	Gain    float64 // the least gain for which tokens are proposed; 0: DefaultGain
}

// gain returns the least gain for which tokens are proposed.
func (r *Round) gain() float64 {
	if r.Gain == 0 {
		return DefaultGain
	}
	return r.Gain
}

// assumedStep is that of a block of the model.
const assumedStep = 0.1

// Step returns the expected duration of a step of the drafter.
func (r *Round) Step(rows int) float64 {
	assumed := cmp.Or(r.Assumed, assumedStep) * r.plain()
	switch s := r.Drafter.Seconds(rows); {
	case s == 0:
		return assumed
	case r.Drafter.isUnsure(min(rows, MaxRows)):
		return min(s, assumed)
	default:
		return s
	}
}

// plain returns the expected duration of the pass without drafts.
func (r *Round) plain() float64 {
	if s := r.Passes.Seconds(r.Rows); s > 0 {
		return s
	}
	return 1
}

// Speed returns the tokens per second of the pass with so many drafts more, of which so many are
// expected to be right, after steps of the drafter that take so much longer.
func (r *Round) Speed(drafts int, right, steps float64) float64 {
	return (float64(r.Rows) + r.Right + right) /
		(r.plain()*r.Passes.ratio(r.Rows, r.Drafts+drafts) + r.Steps + steps)
}

// measurable returns how many drafts more a pass may have. The time of longer passes is not
// measured, and drafts in them would seem to cost nothing.
func (r *Round) measurable() int { return MaxRows - r.Rows - r.Drafts }

// Add adds drafts to the pass.
func (r *Round) Add(drafts int, right, steps float64) {
	r.Drafts, r.Right, r.Steps = r.Drafts+drafts, r.Right+right, r.Steps+steps
}

// LookupDepth returns how many tokens to propose for a sequence whose match has this length, up to
// most. It also returns how many of them are expected to be right, and the speed of the pass with
// them. The depth is 0 if they are not worth their time.
func (r *Round) LookupDepth(match, most int, h *Hits) (depth int, right, speed float64) {
	if match == 0 || r.Passes.lacksPlain(r.Rows) {
		return 0, 0, 0
	}
	most = min(most, firstWindow+h.window, r.measurable())
	best := r.Speed(0, 0, 0) * r.gain()
	chance, sum := 1.0, 0.0
	for d := 1; d <= most; d++ {
		chance *= h.Rate(match + d - 1)
		sum += chance
		if s := r.Speed(d, sum, 0); s > best {
			best, depth, right, speed = s, d, sum, s
		}
	}
	return depth, right, speed
}
