package host

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"headroom/app/library"
	"headroom/app/memory"
	"headroom/app/parity"
	"headroom/app/power"
	"headroom/engine"
	"headroom/engine/modelfile"
	"headroom/engine/problem"
)

// fakeCheck is a check whose progress and result the test decides.
type fakeCheck struct {
	begun  chan parity.Options
	finish chan error // nil: the report
	report parity.Report
}

func newFakeCheck() *fakeCheck {
	return &fakeCheck{begun: make(chan parity.Options, 1), finish: make(chan error)}
}

func (f *fakeCheck) run(ctx context.Context, o parity.Options, started func(int)) (*parity.Report,
	error) {
	started(1)
	f.begun <- o
	select {
	case err := <-f.finish:
		if err != nil {
			return nil, err
		}
		return &f.report, nil
	case <-ctx.Done():
		return nil, problem.From(ctx.Err())
	}
}

// check starts a check and returns its options once it runs.
func (f *fakeCheck) check(t *testing.T, h *Host, id string) parity.Options {
	t.Helper()
	if err := h.StartCheck(id); err != nil {
		t.Fatal(err)
	}
	select {
	case o := <-f.begun:
		return o
	case <-time.After(timeout):
		t.Fatal("no check begins")
		return parity.Options{}
	}
}

// checked waits until the check of a model has this status.
func checked(t *testing.T, h *Host, id string, status CheckStatus) ModelCheck {
	t.Helper()
	changed, done := h.Subscribe()
	defer done()
	late := time.After(timeout)
	for {
		c, err := h.Check(id)
		if err != nil {
			t.Fatal(err)
		}
		if c.Status == status {
			return c
		}
		select {
		case <-changed:
		case <-late:
			t.Fatalf("the check of %s is %s, want %s", id, c.Status, status)
		}
	}
}

// TestCheck follows a check from its start to its result, which stays.
func TestCheck(t *testing.T) {
	f := newFakeCheck()
	h := newTestHostWith(t, func(o *Options) {
		o.Check = f.run
		o.Engine = func(string) engine.Options { return engine.Options{KVFormat: "f16"} }
		o.Device = func(context.Context) (string, error, error) { return "metal", nil, nil }
	})
	if c, err := h.Check("a"); err != nil || c.Status != NotChecked || c.Model != "a" ||
		c.Rows == nil {
		t.Errorf("before: %+v, %v", c, err)
	}
	before := h.State().ChecksVersion
	o := f.check(t, h.Host, "a")
	if o.Engine.Device != "metal" || o.Other != engine.DeviceCPU || o.Engine.KVFormat != "f16" ||
		o.Engine.ContextTokens != parity.ContextTokens || o.Engine.AvailableBytes != 0 ||
		o.Engine.ModelName != "a" || o.Tokens != parity.DefaultTokens {
		t.Errorf("options: %+v", o)
	}
	o.Say(2, 5, "after a restart")
	o.Row(parity.Row{Way: "plain, one by one", Answers: 8, DecodeTokensPerSecond: 9.5})
	o.Row(parity.Row{Way: "in a crowd", MustEqual: true, LargestDifference: math.NaN(),
		Partings: []parity.Parting{{Prompt: 1, Token: 3, Other: parity.Said{ID: -1}}}})
	c, err := h.Check("a")
	if err != nil || c.Status != Checking || c.Step != 2 || c.Steps != 5 ||
		c.What != "after a restart" || len(c.Rows) != 2 || c.StartedAtUnixMs == 0 {
		t.Errorf("running: %+v, %v", c, err)
	}
	if r := c.Rows[1]; r.LargestDifference != nil || r.Partings[0].Token != 3 ||
		!r.Partings[0].Other.Ended || c.Rows[0].DecodeTokensPerSecond != 9.5 {
		t.Errorf("rows: %+v", c.Rows)
	}
	if _, err := json.Marshal(c); err != nil {
		t.Error(err)
	}
	if s := h.State(); s.Checking != "a" || s.ChecksVersion < before+4 {
		t.Errorf("state: %q, %d after %d", s.Checking, s.ChecksVersion, before)
	}
	f.report = parity.Report{Device: "GPU", KVFormat: "f16", Prompts: 8, MaxTokens: 48,
		Equal: true, Verdict: "All do."}
	f.finish <- nil
	c = checked(t, h.Host, "a", Checked)
	if !c.Equal || c.Verdict != "All do." || c.Device != "GPU" || c.Answers != 8 ||
		c.EndedAtUnixMs == 0 || len(c.Rows) != 2 || c.Error != nil {
		t.Errorf("done: %+v", c)
	}
	if s := h.State(); s.Checking != "" {
		t.Errorf("state: %q is still being checked", s.Checking)
	}
}

// TestCheckEnds: a check fails with its reason, is stopped by a person, and ends with the host.
func TestCheckEnds(t *testing.T) {
	f := newFakeCheck()
	h := newTestHostWith(t, func(o *Options) { o.Check = f.run })
	f.check(t, h.Host, "a")
	f.finish <- problem.New(problem.Crashed, "It ended", "the GPU hung", "")
	if c := checked(t, h.Host, "a", CheckFailed); c.Error == nil || c.Error.Why != "the GPU hung" {
		t.Errorf("failed: %+v", c)
	}
	f.check(t, h.Host, "a").Row(parity.Row{Way: "plain"})
	h.StopCheck("b") // another model's: nothing happens
	if c, _ := h.Check("a"); c.Status != Checking || c.Error != nil {
		t.Errorf("again: %+v", c)
	}
	h.StopCheck("a")
	if c := checked(t, h.Host, "a", CheckStopped); len(c.Rows) != 1 || c.Error != nil {
		t.Errorf("stopped: %+v", c)
	}
	f.check(t, h.Host, "b")
	h.Close() // waits for the check
	if c, _ := h.Check("b"); c.Status != CheckStopped {
		t.Errorf("after Close: %+v", c)
	}
	if err := h.StartCheck("a"); err == nil {
		t.Error("a closed host checks a model")
	}
}

// TestCheckRefusals: each refusal says why and what to do.
func TestCheckRefusals(t *testing.T) {
	f := newFakeCheck()
	m := newMachine(t, 20, 70, 0)
	m.options.Check = f.run
	refused := func(id string, code problem.Code, why, fix string) {
		t.Helper()
		err := m.StartCheck(id)
		p := problem.From(err)
		if err == nil || p.Code != code || !strings.Contains(p.Why, why) ||
			!strings.Contains(p.Fix, fix) {
			t.Errorf("%s: %+v, want %s, %q, %q", id, p, code, why, fix)
		}
	}
	refused("gone", problem.ModelNotFound, "", "")
	refused("broken", problem.ModelBroken, "", "")
	m.start("b") // 30 of 100 GiB are left, of which some are for other apps
	if err := m.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	refused("b", problem.DoesNotFit, "needs 70.0 GB, 2", "Unload a model")
	f.check(t, m.Host, "a")
	refused("headroom-demo", problem.Busy, "a is being checked", "stop it")
	f.finish <- nil
	checked(t, m.Host, "a", Checked)
	m.options.Check = nil
	refused("a", problem.BadRequest, "its own process", "headroom parity a")
}

// TestCheckWaitsForLoads: while a model is being loaded, it is not known what is free.
func TestCheckWaitsForLoads(t *testing.T) {
	f := newFakeCheck()
	h := newTestHostWith(t, func(o *Options) { o.Check = f.run })
	h.start("a")
	e := h.loading("a")
	if p := problem.From(h.StartCheck("b")); p.Code != problem.Loading ||
		!strings.Contains(p.Why, "a is being loaded") {
		t.Errorf("%+v", p)
	}
	e.finish <- nil
	if err := h.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.check(t, h.Host, "b")
	f.finish <- errors.New("over")
	checked(t, h.Host, "b", CheckFailed)
}

// TestCheckOfVectors: a model that generates no text has nothing to compare.
func TestCheckOfVectors(t *testing.T) {
	f := newFakeCheck()
	h := newTestHostWith(t, func(o *Options) {
		o.Check = f.run
		describe := func(engine.Source, engine.Options) (engine.Description, error) {
			return engine.Description{Architecture: "fake", Task: modelfile.Embed}, nil
		}
		o.Library = library.New(o.Library.Roots(), engine.Options{}, describe)
	})
	if p := problem.From(h.StartCheck("a")); !strings.Contains(p.Why, "generates no text") {
		t.Errorf("%+v", p)
	}
}

// TestCheckBounds: a check ends when memory gets scarce, and in critical heat, in which none
// begins. Both say why. In other heat, or if the user does not want to be slowed down, it goes on.
func TestCheckBounds(t *testing.T) {
	f := newFakeCheck()
	var free atomic.Int64
	free.Store(60 << 30)
	s := &fakePower{policy: power.Policy{ThrottleWhenHot: true}}
	h := newTestHostWith(t, func(o *Options) {
		o.Check, o.Power = f.run, s.read
		o.Meter = memory.NewMeter(func([]int) (memory.Reading, error) {
			return memory.Reading{TotalBytes: 64 << 30, AvailableBytes: free.Load()}, nil
		})
	})
	ended := func(why, fix string) {
		t.Helper()
		h.boundCheck()
		c := checked(t, h.Host, "a", CheckFailed)
		if c.Error == nil || !strings.Contains(c.Error.Why, why) ||
			!strings.Contains(c.Error.Fix, fix) || !strings.Contains(c.Error.Message, "was ended") {
			t.Errorf("%+v, want %q and %q", c.Error, why, fix)
		}
	}
	goesOn := func(what string) {
		t.Helper()
		h.boundCheck()
		if c, _ := h.Check("a"); c.Status != Checking || h.checks.running != "a" {
			t.Errorf("%s: %+v", what, c)
		}
	}
	h.boundCheck() // nothing runs
	f.check(t, h.Host, "a")
	free.Store(5 << 30) // a model and half of the reserve of 8 GiB fit
	goesOn("some memory is left")
	free.Store(3 << 30)
	ended("only 3.0 GB of memory is free, and a check has to leave 4.0 GB", "Unload a model")

	free.Store(60 << 30)
	f.check(t, h.Host, "a")
	s.set(h, power.State{ThermalState: power.Serious})
	goesOn("serious heat")
	s.set(h, power.State{ThermalState: power.Critical})
	ended("critically hot", "cool down")
	if p := problem.From(h.StartCheck("a")); p.Code != problem.LowResources ||
		!strings.Contains(p.Why, "critically hot") {
		t.Errorf("%+v", p)
	}
	s.policy.ThrottleWhenHot = false
	s.set(h, power.State{ThermalState: power.Critical})
	f.check(t, h.Host, "a")
	goesOn("heat that the user accepts")
	h.StopCheck("a")
	checked(t, h.Host, "a", CheckStopped)
}
