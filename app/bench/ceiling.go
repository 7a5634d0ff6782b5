package bench

// What the machine could do while a figure was taken. Memory's speed changes from minute to minute
// where other machines share it, so each sample has a ceiling of its own, from right before and
// after it, and what counts is the median of their ratios.

import (
	"time"
)

// samples of a figure.
type samples struct {
	values []float64
	could  []Ceilings // while each was taken
}

// ReadingTime is how long memory is read for a reading, and how long multiplied.
const ReadingTime = 80 * time.Millisecond

// could is what this machine can do now with so many threads.
func (r *run) could(threads int) (now Ceilings, err error) {
	if r.Ceilings != nil {
		r.seen = append(r.seen, *r.Ceilings)
		return *r.Ceilings, nil
	}
	y := r.yards[threads]
	if y == nil {
		r.say("what this machine could do")
		if y, err = NewYardstick(r.Device, threads); err != nil {
			return now, err
		}
		if r.yards == nil {
			r.yards = map[int]*Yardstick{}
		}
		r.yards[threads] = y
	}
	if now, err = y.Measure(ReadingTime); err == nil && threads == r.Threads {
		r.seen = append(r.seen, now)
	}
	return now, err
}

// sample takes one with a reading before and one after it.
func (r *run) sample(s *samples, take func() (float64, error)) error {
	return r.sampleWith(r.Threads, s, take)
}

// sampleWith does the same for work of so many threads.
func (r *run) sampleWith(threads int, s *samples, take func() (float64, error)) error {
	before, err := r.could(threads)
	if err != nil {
		return err
	}
	v, err := take()
	if err != nil {
		return err
	}
	after, err := r.could(threads)
	s.values, s.could = append(s.values, v), append(s.could, Mean(before, after))
	return err
}

// typical is the median of the readings with all threads.
func (r *run) typical() Ceilings {
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
	for _, y := range r.yards {
		y.Close()
	}
}

// Mean is what a machine could do on average whose readings are these.
func Mean(readings ...Ceilings) (m Ceilings) {
	n := float64(len(readings))
	for _, c := range readings {
		m.ReadBytes += c.ReadBytes / n
		m.Int8Ops += c.Int8Ops / n
		m.Float32Ops += c.Float32Ops / n
	}
	return m
}
