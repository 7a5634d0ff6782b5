package bench

// The ceilings at the time of a measurement. On a virtual machine other machines use the same
// memory, so its speed changes from minute to minute. Therefore each sample has its own ceiling,
// measured right before and after it. A figure's share of the ceiling is the median of its samples'
// shares.

import "time"

// samples are the samples of a figure.
type samples struct {
	values   []float64
	ceilings []Ceilings // while each was measured
}

// ReadingTime is how long one reading measures memory. Arithmetic takes as long again.
const ReadingTime = 80 * time.Millisecond

// measureCeilings measures the ceilings with the given number of threads.
func (r *run) measureCeilings(threads int) (now Ceilings, err error) {
	if r.Ceilings != nil {
		r.seen = append(r.seen, *r.Ceilings)
		return *r.Ceilings, nil
	}
	y := r.yardsticks[threads]
	if y == nil {
		r.say("this machine's ceilings")
		if y, err = NewYardstick(r.Device, threads); err != nil {
			return now, err
		}
		if r.yardsticks == nil {
			r.yardsticks = map[int]*Yardstick{}
		}
		r.yardsticks[threads] = y
	}
	if now, err = y.Measure(ReadingTime); err == nil && threads == r.Threads {
		r.seen = append(r.seen, now)
	}
	return now, err
}

// sample measures one sample, with a reading before and after it.
func (r *run) sample(s *samples, take func() (float64, error)) error {
	return r.sampleWith(r.Threads, s, take)
}

// sampleWith is like sample, for work on the given number of threads.
func (r *run) sampleWith(threads int, s *samples, take func() (float64, error)) error {
	before, err := r.measureCeilings(threads)
	if err != nil {
		return err
	}
	v, err := take()
	if err != nil {
		return err
	}
	after, err := r.measureCeilings(threads)
	s.values, s.ceilings = append(s.values, v), append(s.ceilings, Mean(before, after))
	return err
}

// medianCeilings returns the median of the readings with all threads.
func (r *run) medianCeilings() Ceilings {
	of := func(figure func(Ceilings) float64) float64 {
		var all []float64
		for _, c := range r.seen {
			all = append(all, figure(c))
		}
		return median(all)
	}
	return Ceilings{
		ReadBytes:  of(func(c Ceilings) float64 { return c.ReadBytes }),
		Int8Ops:    of(func(c Ceilings) float64 { return c.Int8Ops }),
		Float32Ops: of(func(c Ceilings) float64 { return c.Float32Ops }),
	}
}

func (r *run) close() {
	for _, y := range r.yardsticks {
		y.Close()
	}
}

// Mean returns the mean of readings.
func Mean(readings ...Ceilings) (m Ceilings) {
	n := float64(len(readings))
	for _, c := range readings {
		m.ReadBytes += c.ReadBytes / n
		m.Int8Ops += c.Int8Ops / n
		m.Float32Ops += c.Float32Ops / n
	}
	return m
}
