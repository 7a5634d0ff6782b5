package cpu

import (
	"slices"
	"testing"
)

// reader reads stretches, which differ by worker only in their start.
type reader struct {
	tally
	stretches []Stretch
}

func (r *reader) Stretches(_ *Context, worker int) (all []Stretch) {
	for _, s := range r.stretches {
		all = append(all, Stretch{s.At + uintptr(worker), s.Bytes})
	}
	return all
}

func TestPrefetcherCoversStretches(t *testing.T) {
	f := prefetcher{}
	f.follow(&reading{stretches: [][]Stretch{nil, {{At: 1000, Bytes: 1},
		{At: 5000, Bytes: 2*prefetchBytes + 7}, {At: 3000, Bytes: prefetchBytes}}}}, 1)
	want := []Stretch{{1000, 1}, {5000, prefetchBytes}, {5000 + prefetchBytes, prefetchBytes},
		{5000 + 2*prefetchBytes, 7}, {3000, prefetchBytes}}
	var got []Stretch
	for at, bytes := f.next(); bytes > 0; at, bytes = f.next() {
		got = append(got, Stretch{at, bytes})
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, expected %v", got, want)
	}
	if f.step() {
		t.Error("something is left after the last piece")
	}
}

// TestPrefetchLearnsWhatFollows checks that after a job, threads prefetch what the next job read
// the last time. A job that declares nothing changes nothing.
func TestPrefetchLearnsWhatFollows(t *testing.T) {
	if !native {
		t.Skip("prefetching needs cgo")
	}
	c := NewContext(Options{Threads: 2})
	defer c.Close()
	jobs := map[uintptr]*reader{}
	for key := uintptr(1); key <= 3; key++ {
		jobs[key] = &reader{tally: tally{t: t, done: make([]int, 8)},
			stretches: []Stretch{{At: key << 20, Bytes: 100}}}
	}
	quiet := &tally{t: t, done: make([]int, 8)}
	run := func(key uintptr) (next *reading) {
		c.Reads(key, jobs[key])
		next = c.pool.ahead
		c.Parallel(jobs[key], 0, 8, 1)
		c.Parallel(quiet, 0, 8, 1)
		return next
	}
	for _, key := range []uintptr{1, 2, 3} {
		if next := run(key); next != nil {
			t.Errorf("after job %d: got %v, which never followed it", key, next.stretches)
		}
	}
	for _, step := range []struct{ job, next uintptr }{{1, 2}, {2, 3}, {3, 1}, {1, 2}, {3, 1},
		{1, 3}} {
		next := run(step.job)
		if next == nil {
			t.Fatalf("after job %d: got nothing, expected what followed it", step.job)
		}
		if want := jobs[step.next].stretches; !slices.Equal(next.stretches[0], want) ||
			next.stretches[1][0].At != want[0].At+1 {
			t.Errorf("after job %d: got %v, expected what job %d reads", step.job, next.stretches,
				step.next)
		}
	}
	if n := testing.AllocsPerRun(100, func() { run(1); run(2) }); n != 0 {
		t.Errorf("Reads and Parallel: got %v allocations, expected none", n)
	}
}
