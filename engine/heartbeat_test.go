package engine_test

import (
	"testing"

	"headroom/engine"
	"headroom/kernels"
)

// gated is a device that runs the first free operators, and blocks before each later one. It sends
// to blocked and then waits for a value from release.
type gated struct {
	kernels.Device
	free             int
	blocked, release chan struct{}
}

func (d *gated) Run(op kernels.Op) {
	if d.free--; d.free < 0 {
		d.blocked <- struct{}{}
		<-d.release
	}
	d.Device.Run(op)
}

// TestHeartbeat checks that Count advances with every operator and stops while one blocks, and that
// Busy becomes false when the request ends.
func TestHeartbeat(t *testing.T) {
	e := openModel(t, engine.Random([]byte(tinyConfig)),
		engine.Options{Device: engine.DeviceCPU, Threads: 1, ContextTokens: 64})
	if p := e.Heartbeat(); p.Busy {
		t.Errorf("idle: %+v, expected Busy to be false", p)
	}
	d := &gated{free: 3, blocked: make(chan struct{}), release: make(chan struct{})}
	e.ReplaceDevice(func(inner kernels.Device) kernels.Device { d.Device = inner; return d })
	s := submit(t, e, engine.Request{Prompt: []int32{1, 2, 3}, MaxTokens: 1, IgnoreEOS: true})
	<-d.blocked
	first := e.Heartbeat()
	if again := e.Heartbeat(); !first.Busy || again != first {
		t.Errorf("while an operator blocks: %+v, then %+v; expected twice the same, and Busy",
			first, again)
	}
	d.release <- struct{}{}
	<-d.blocked // before the next operator
	if p := e.Heartbeat(); p.Count <= first.Count || !p.Busy {
		t.Errorf("after an operator: %+v, before it %+v; expected a larger Count, and Busy",
			p, first)
	}
	ended := make(chan struct{})
	go func() {
		for {
			select {
			case <-d.blocked:
			case d.release <- struct{}{}:
			case <-ended:
				return
			}
		}
	}()
	collect(t, s)
	close(ended)
	if p := e.Heartbeat(); p.Busy {
		t.Errorf("busy after Done was read: %+v", p)
	}
}
