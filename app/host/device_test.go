package host

import (
	"context"
	"testing"
	"time"

	"headroom/engine"
	"headroom/engine/problem"
)

// The host asks for the device unless the options name one. A warning about the device is in the
// state, whatever the engine does.
func TestDevice(t *testing.T) {
	asked, wanted := 0, ""
	w := newWorldWith(t, func(o *Options) {
		o.Engine = func(string) engine.Options { return engine.Options{Device: wanted} }
		o.Device = func(context.Context) (string, error, error) {
			asked++
			return engine.DeviceCPU,
				problem.New(problem.Internal, "The GPU is not used", "its self-test failed", ""),
				nil
		}
	})
	if s := w.State(); s.Engine.Notice != nil || asked != 0 {
		t.Errorf("before anything started: notice %+v, asked %d times", s.Engine.Notice, asked)
	}
	wanted = engine.DeviceMetal
	if e := w.run("a"); e.o.Device != engine.DeviceMetal || asked != 0 {
		t.Errorf("with a device that is wanted: %q, asked %d times", e.o.Device, asked)
	}
	wanted = ""
	if e := w.run("b"); e.o.Device != engine.DeviceCPU || asked != 1 {
		t.Errorf("with none: %q, asked %d times", e.o.Device, asked)
	}
	w.Stop()
	if n := w.expect(Stopped, "").Engine.Notice; n == nil || n.Message != "The GPU is not used" ||
		n.Why != "its self-test failed" {
		t.Errorf("notice %+v", n)
	}
}

// Stop cancels a wait for the device.
func TestStopWhileTheDeviceIsTried(t *testing.T) {
	trying := make(chan struct{})
	w := newWorldWith(t, func(o *Options) {
		o.Device = func(ctx context.Context) (string, error, error) {
			close(trying)
			<-ctx.Done()
			return "", nil, ctx.Err()
		}
	})
	w.start("a")
	select {
	case <-trying:
	case <-time.After(patience):
		t.Fatal("the device is not tried")
	}
	w.expect(Loading, "a")
	w.Stop()
	w.expect(Stopped, "")
}
