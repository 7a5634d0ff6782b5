package loop

import (
	"testing"
	"time"

	"headroom/engine/sched"
)

// TestBackgroundDebt: beside others, background rows take backgroundShare of the time, whatever
// they cost.
func TestBackgroundDebt(t *testing.T) {
	front := sched.Work{Seq: &sched.Sequence{}, From: 5, To: 6}
	later := sched.Work{Seq: &sched.Sequence{Background: true}, From: 5, To: 6}
	prompt := sched.Work{Seq: &sched.Sequence{}, From: 0, To: 64}
	for _, cost := range []time.Duration{0, 100 * time.Microsecond, 9 * time.Millisecond,
		250 * time.Millisecond} {
		var b background
		b.observe([]sched.Work{later}, time.Second) // delays nobody
		b.observe([]sched.Work{prompt}, time.Second)
		if b.allowed() {
			t.Error("it is allowed although the time of a step is unknown")
		}
		var alone, all time.Duration
		shared := 0
		for range 40_000 {
			const step = time.Millisecond
			if alone += step; b.allowed() {
				shared++
				all += step + cost
				b.observe([]sched.Work{front, later}, step+cost)
				continue
			}
			all += step
			b.observe([]sched.Work{front}, step)
		}
		most := backgroundShare + cost.Seconds()/alone.Seconds() // the last one is not paid back
		if lost := all.Seconds()/alone.Seconds() - 1; lost > most*1.01 || shared == 0 {
			t.Errorf("rows of %v: %d steps, others lost %.3f of their time", cost, shared, lost)
		}
	}
}
