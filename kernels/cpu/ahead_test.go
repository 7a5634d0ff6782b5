package cpu

import (
	"slices"
	"testing"
)

// reader reads stretches, the same ones by every worker but for their start.
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

func TestPiecesAreTheStretches(t *testing.T) {
	f := fetcher{}
	f.follow(&reading{stretches: [][]Stretch{nil, {{At: 1000, Bytes: 1}, {At: 5000, Bytes: 2*fetchBytes + 7}, {At: 3000, Bytes: fetchBytes}}}}, 1)
	want := []Stretch{{1000, 1}, {5000, fetchBytes}, {5000 + fetchBytes, fetchBytes},
		{5000 + 2*fetchBytes, 7}, {3000, fetchBytes}}
	var got []Stretch
	for at, bytes := f.piece(); bytes > 0; at, bytes = f.piece() {
		got = append(got, Stretch{at, bytes})
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, expected %v", got, want)
	}
	if f.some() {
		t.Error("something is left after the last piece")
	}
}

// What followed a job the last time is what is fetched after it; a job that says nothing of what it
// reads changes nothing.
func TestWhatFollowsIsLearned(t *testing.T) {
	if !native {
		t.Skip("fetching is C")
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
			t.Errorf("after job %d something is known to follow that never did: %v", key,
				next.stretches)
		}
	}
	for _, step := range []struct{ job, next uintptr }{{1, 2}, {2, 3}, {3, 1}, {1, 2}, {3, 1},
		{1, 3}} {
		next := run(step.job)
		if next == nil {
			t.Fatalf("after job %d nothing is known to follow", step.job)
		}
		if want := jobs[step.next].stretches; !slices.Equal(next.stretches[0], want) ||
			next.stretches[1][0].At != want[0].At+1 {
			t.Errorf("after job %d: got %v, expected what job %d reads", step.job, next.stretches,
				step.next)
		}
	}
	if n := testing.AllocsPerRun(100, func() { run(1); run(2) }); n != 0 {
		t.Errorf("a job that says what it reads allocates: %v", n)
	}
}
