package draft

// How far a drafter goes that drafts a block of tokens in one step. How many tokens the step drafts
// is decided before it, from how often drafts were right, and how many of them the pass verifies
// after it, from the probabilities that the drafter gave them. What is known about it is a Chain.

// Room returns how many tokens are drafted where depth of them are worth their time on average, at
// most most. A sure drafter goes on beyond these.
func Room(depth, most int) int { return min(2*depth+1, most) }

// BlockDepth returns how many tokens of a block are worth their time for a sequence, up to most,
// and the speed of the pass with them. The step has so many rows for other sequences. The depth is
// 0 if drafts are not worth their time.
func (r *Round) BlockDepth(c *Chain, most, rows int) (depth int, speed float64) {
	if r.Passes.lacksPlain(r.Rows) {
		return 0, 0
	}
	before := 0.0
	if rows > 0 {
		before = r.Step(rows)
	}
	best := r.Speed(0, 0, 0) * r.gain()
	chance, right := 1.0, 0.0
	for d := 1; d <= min(most, r.measurable()); d++ {
		chance *= c.Next()
		right += chance
		step := max(0, r.Step(rows+1+Room(d, most))-before)
		if s := r.Speed(d, right, step); s > best {
			best, depth, speed = s, d, s
		}
	}
	return depth, speed
}

// TakeBlock returns how many of the drafts of a block, from the first on, the pass should verify,
// and how many of these are expected to be right. probabilities are those that the drafter gave
// them.
func (r *Round) TakeBlock(c *Chain, probabilities []float64) (drafts int, right float64) {
	best := r.Speed(0, 0, 0)
	chance, sum := 1.0, 0.0
	for i, p := range probabilities {
		chance *= c.Rate(p)
		sum += chance
		if s := r.Speed(i+1, sum, 0); s > best {
			best, drafts, right = s, i+1, sum
		}
	}
	return drafts, right
}
