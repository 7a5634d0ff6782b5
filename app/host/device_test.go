package host

import (
	"context"
	"testing"
	"time"

	"headroom/engine"
	"headroom/engine/problem"
)

// TestDevice: Options.Device is called unless the engine's options name a device. State shows its
// warning, also after the model was stopped.
func TestDevice(t *testing.T) {
	calls, device := 0, ""
	h := newTestHostWith(t, func(o *Options) {
		o.Engine = func(string) engine.Options { return engine.Options{Device: device} }
		o.Device = func(context.Context) (string, error, error) {
			calls++
			return engine.DeviceCPU,
				problem.New(problem.Internal, "The GPU is not used", "its self-test failed", ""),
				nil
		}
	})
	if s := h.State(); s.Engine.Notice != nil || calls != 0 {
		t.Errorf("before the first start: notice %+v, %d calls", s.Engine.Notice, calls)
	}
	device = engine.DeviceMetal
	if e := h.run("a"); e.o.Device != engine.DeviceMetal || calls != 0 {
		t.Errorf("with a device in the options: %q, %d calls", e.o.Device, calls)
	}
	device = ""
	if e := h.run("b"); e.o.Device != engine.DeviceCPU || calls != 1 {
		t.Errorf("without a device in the options: %q, %d calls", e.o.Device, calls)
	}
	h.Stop()
	if n := h.expect(Stopped, "").Engine.Notice; n == nil || n.Message != "The GPU is not used" ||
		n.Why != "its self-test failed" {
		t.Errorf("notice %+v", n)
	}
}

// Stop cancels the context of Options.Device.
func TestStopDuringDeviceChoice(t *testing.T) {
	choosing := make(chan struct{})
	h := newTestHostWith(t, func(o *Options) {
		o.Device = func(ctx context.Context) (string, error, error) {
			close(choosing)
			<-ctx.Done()
			return "", nil, ctx.Err()
		}
	})
	h.start("a")
	select {
	case <-choosing:
	case <-time.After(timeout):
		t.Fatal("Options.Device is not called")
	}
	h.expect(Loading, "a")
	h.Stop()
	h.expect(Stopped, "")
}
