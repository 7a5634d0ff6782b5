package draft

// share is how often what was expected came true, as two counts. The zero value is no observation.
type share struct{ seen, hits float64 }

const (
	mostSeen   = 200 // observations at which observe halves both counts
	rateMemory = 64  // observations after which average counts an earlier one about a third
)

// observe counts an observation. Those of long ago fade at times: the counts are then halved.
func (s *share) observe(hit bool) {
	if s.seen >= mostSeen {
		s.seen, s.hits = s.seen/2, s.hits/2
	}
	s.seen++
	if hit {
		s.hits++
	}
}

// average counts an observation and lets all earlier ones fade a little, so that the share is a
// moving average.
func (s *share) average(hit bool) {
	s.seen += 1 - s.seen/rateMemory
	s.hits -= s.hits / rateMemory
	if hit {
		s.hits++
	}
}

// rate returns the share, with a first guess that counts as much as weight observations.
func (s *share) rate(first, weight float64) float64 {
	return (s.hits + weight*first) / (s.seen + weight)
}
