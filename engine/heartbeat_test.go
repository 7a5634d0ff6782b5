package engine_test

import (
	"testing"

	"headroom/engine"
	"headroom/kernels"
)

// gated is a device that blocks before an operator until it is released.
type gated struct {
	kernels.Device
	from    int // operators that go through at once
	at, let chan struct{}
}

func (d *gated) Run(op kernels.Op) {
	if d.from--; d.from < 0 {
		d.at <- struct{}{}
		<-d.let
	}
	d.Device.Run(op)
}

// TestHeartbeat checks that Count advances with every operator and stops while one blocks, and that
// Busy becomes false when the request ends.
func TestHeartbeat(t *testing.T) {
	e := openModel(t, engine.Random([]byte(tinyConfig)),
		engine.Options{Device: engine.DeviceCPU, Threads: 1, ContextTokens: 64})
	if p := e.Heartbeat(); p.Busy {
		t.Errorf("at rest: %+v", p)
	}
	d := &gated{from: 3, at: make(chan struct{}), let: make(chan struct{})}
	e.ReplaceDevice(func(inner kernels.Device) kernels.Device { d.Device = inner; return d })
	s := submit(t, e, engine.Request{Prompt: []int32{1, 2, 3}, MaxTokens: 1, IgnoreEOS: true})
	<-d.at
	first := e.Heartbeat()
	if again := e.Heartbeat(); !first.Busy || again != first {
		t.Errorf("in an operator that does not end: %+v, then %+v", first, again)
	}
	d.let <- struct{}{}
	<-d.at // the next operator
	if p := e.Heartbeat(); p.Count <= first.Count || !p.Busy {
		t.Errorf("an operator has ended: %+v, after %+v", p, first)
	}
	ended := make(chan struct{})
	go func() {
		for {
			select {
			case <-d.at:
			case d.let <- struct{}{}:
			case <-ended:
				return
			}
		}
	}()
	collect(t, s)
	close(ended)
	if p := e.Heartbeat(); p.Busy {
		t.Errorf("Done was read, and something is due: %+v", p)
	}
}
