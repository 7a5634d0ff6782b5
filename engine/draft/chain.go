package draft

// How far a drafter that computes goes. It drafts one token after another, and each takes a step of
// its own. After each draft it is decided whether the pass verifies it, and whether another one is
// drafted. A draft comes with the probability that the drafter gave it. A drafter may be too sure,
// or not sure enough, so it is measured how often drafts of such a probability are right.
//
// A drafter that is not worth its time is not used, so nothing would be learnt about it. Now and
// then it therefore drafts one token for trial, which is compared with the model's own and not
// verified. The longer it is not worth its time, the rarer trials are, and they take a small share
// of the time between them. That includes what a draft model has to read before.

// chainClasses separate the classes of probabilities, by their distance from 1.
var chainClasses = [...]float64{0.5, 0.25, 0.1, 0.03, 0.01, 0.003}

// Chain is what is known about a drafter that computes. The zero value is what is assumed before
// anything is known.
type Chain struct {
	// Before is what was known before the first observation, and learns all of them; nil: nothing.
	Before *Chain
	shares [len(chainClasses) + 1]share // by class: how many drafts were right
	latest share                        // how many of the latest drafts were right

	pause, waited int // calls of Try from one trial to the next, and those since the last
}

const (
	firstRate  = 0.8 // the share of right drafts that is assumed before anything is known
	firstTrust = 24  // how many drafts count as much as what was known before
	// The pause between trials grows from firstPause to mostPause.
	firstPause, mostPause = 8, 512
	trialShare            = 0.0125 // of the time of the passes between them, for trials
	// assumedReading is the assumed duration of reading a token, in steps of the drafter.
	assumedReading = 0.25
	// drafterYield is about how many tokens a pass with drafts yields.
	drafterYield = 2
)

// chainClass returns the class of a probability.
func chainClass(probability float64) int {
	for i, distance := range chainClasses {
		if 1-probability > distance {
			return i
		}
	}
	return len(chainClasses)
}

// Observe records whether a draft of this probability, which followed right tokens, was right.
func (c *Chain) Observe(probability float64, right bool) {
	if c.Before != nil {
		c.Before.Observe(probability, right)
	}
	c.shares[chainClass(probability)].observe(right)
	c.latest.average(right)
}

// Rate returns the probability that a draft is right to which the drafter gave this probability.
func (c *Chain) Rate(probability float64) float64 {
	first := probability
	if c.Before != nil {
		first = c.Before.Rate(probability)
	}
	return c.shares[chainClass(probability)].rate(first, firstWeight)
}

// Next returns the probability that the next draft will be right, before it is drafted.
func (c *Chain) Next() float64 {
	first := firstRate
	if c.Before != nil {
		first = c.Before.Next()
	}
	return c.latest.rate(first, firstTrust)
}

// Used records that the drafter was worth its time: the next pause is again the shortest one.
func (c *Chain) Used() { c.pause, c.waited = 0, 0 }

// Try reports whether a drafter that is not worth its time drafts a token for trial, for which it
// takes as long as so many passes. It is called for each pass of a sequence that has no drafts.
func (c *Chain) Try(passes float64) bool {
	c.waited++
	if c.waited < max(c.pause, firstPause) || passes > trialShare*float64(c.waited) {
		return false
	}
	c.pause, c.waited = min(2*max(c.pause, firstPause), mostPause), 0
	return true
}

// Trial returns how long a trial takes, in passes, if the drafter first has to read so many tokens,
// each of which takes perToken seconds; 0: not measured.
func (r *Round) Trial(unread int, perToken float64) float64 {
	return (r.Step(1) + float64(unread)*r.perToken(perToken)) / r.plain()
}

// Reading returns the expected time of reading so many tokens, as far as it counts for one pass of
// an answer that has so many tokens, and may get at most so many more. perToken is that of Trial.
func (r *Round) Reading(unread int, perToken float64, answer, most int) float64 {
	return float64(unread) * r.perToken(perToken) /
		max(1, float64(min(answer, most))/drafterYield)
}

func (r *Round) perToken(measured float64) float64 {
	if measured > 0 {
		return measured
	}
	return assumedReading * r.Step(1)
}

// ChainDepth returns how many tokens the drafter should draft for a sequence, up to most, and the
// speed of the pass with them. rows is how many sequences a step drafts for, this one included.
// reading is the time, in seconds, that the drafter first needs for tokens that it has not read.
// The depth is 0 if drafts are not worth their time.
func (r *Round) ChainDepth(c *Chain, most, rows int, reading float64) (depth int, speed float64) {
	if r.Passes.lacksPlain(r.Rows) {
		return 0, 0
	}
	step := r.lastStep(rows)
	with := *r
	with.Steps += reading
	depth, speed = with.further(c, 1, step, 1, most)
	if speed <= r.Speed(0, 0, 0)*r.gain() {
		return 0, 0
	}
	return depth, speed
}

// lastStep returns how much longer a step of the drafter takes because of the last of its rows.
func (r *Round) lastStep(rows int) float64 {
	if rows > 1 {
		return max(0, r.Step(rows)-r.Step(rows-1))
	}
	return r.Step(rows)
}

// Take reports whether the pass should verify a draft, with the drafts that may follow it, up to
// most. chance is the probability that it and all drafts before it are right. A step of the drafter
// takes step seconds.
func (r *Round) Take(c *Chain, chance, step float64, most int) bool {
	with := *r
	with.Add(1, chance, 0)
	_, speed := with.further(c, chance, step, 0, most)
	return speed > r.Speed(0, 0, 0)
}

// More reports whether the drafter should go on after a draft that the pass verifies. Its arguments
// are like those of Take.
func (r *Round) More(c *Chain, chance, step float64, most int) bool {
	_, speed := r.further(c, chance, step, 1, most)
	return speed > r.Speed(0, 0, 0)
}

// further returns how many more drafts, from least to most, give the greatest speed of the pass,
// and that speed. chance is the probability that all drafts before them are right.
func (r *Round) further(c *Chain, chance, step float64, least, most int) (depth int,
	best float64) {
	right := 0.0
	for d := 0; d <= min(most, r.measurable()); d++ {
		if d > 0 {
			chance *= c.Next()
			right += chance
		}
		if s := r.Speed(d, right, float64(d)*step); d >= least && s > best {
			best, depth = s, d
		}
	}
	return depth, best
}
