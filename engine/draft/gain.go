package draft

// What drafts gain: how long decoding would have taken without them, compared with how long it
// took. That is an estimate, since nobody decodes twice. It rests on the averages by which it is
// decided how far to draft: the times of passes and of the drafter's steps by their number of rows
// (Times). A pass with fewer rows counts as no slower than one with more. The averages are scaled
// to how long the pass took, since what held it up would have held up the passes in its place, too.
// So no answer seems to gain more than it had tokens for each pass.
//
// A pass with n right drafts stands for n+1 passes. Each of the n would have taken as long as
// passes without drafts take now, which is what its drafts save. They cost what the pass takes
// longer than one without drafts, plus the drafter's steps before it. All answers that decode in
// the pass wait for it, so each bears the whole cost.

// Cost is what the drafts of a pass cost, and what each right one saves, in seconds.
type Cost struct {
	Drafts float64 // of the pass, right or wrong
	Plain  float64 // duration of a pass without drafts; 0: not measured, and nothing is known
}

// Cost returns the cost of a pass that decodes so many rows, of which drafts are drafts. more is
// what else was done for them, in seconds: the steps of the drafter before it. took is how long the
// pass took, in seconds; 0: as long as is expected.
func (t *Times) Cost(rows, drafts int, more, took float64) Cost {
	whole := t.Seconds(rows)
	plain := min(t.Seconds(rows-drafts), whole)
	switch {
	case rows <= drafts:
		return Cost{}
	case plain == 0:
		return Cost{Drafts: more}
	}
	scale := 1.0
	if took > 0 {
		scale = took / whole
	}
	return Cost{Drafts: (whole-plain)*scale + more, Plain: plain * scale}
}

// Speedup returns the speedup by drafts, (seconds + saved) / seconds, but at least 0. saved is
// negative if drafts cost time. It is 0 if seconds is 0, since nothing was decoded.
func Speedup(seconds, saved float64) float64 {
	if seconds <= 0 {
		return 0
	}
	return max(0, seconds+saved) / seconds
}
