package engine_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"headroom/engine"
	"headroom/engine/problem"
	"headroom/kernels/gpu"
	"headroom/kernels/kerneltest"
	"headroom/metal"
	"headroom/metal/sim"
)

// simulated opens the simulated device in place of a Mac's GPU.
func simulated(o sim.Options) func() (metal.Device, error) {
	return func() (metal.Device, error) { return sim.Open(o) }
}

// onGPU are the options of a short conversation on a simulated GPU that keeps its tuning in dir.
func onGPU(dir string, o sim.Options) engine.Options {
	return engine.Options{Device: engine.DeviceMetal, OpenMetal: simulated(o), ContextTokens: 256,
		MaxSequences: 4, ChunkTokens: 64, NoPrefixCache: true,
		Tuning: engine.Tuning{Dir: dir, Version: "1"}}
}

// fakeClock is a clock by which each measurement takes a second. The largest values are fastest.
func fakeClock(budget time.Duration) engine.TuneOptions {
	now := time.Unix(0, 0)
	return engine.TuneOptions{Budget: budget, Now: func() time.Time { return now },
		Seconds: func(_ gpu.Key, value int, run func() error) (float64, error) {
			now = now.Add(time.Second)
			return 1 / float64(1+value), run()
		}}
}

// tokens returns the answer of an engine, and the error of its Done event.
func tokens(t *testing.T, e *engine.Engine, prompt []int32) (got []int32, failed error) {
	t.Helper()
	s, err := e.Submit(engine.Request{Prompt: prompt, MaxTokens: 12, IgnoreEOS: true})
	if err != nil {
		t.Fatal(err)
	}
	for {
		event, err := s.Next(context.Background())
		switch {
		case err != nil:
			t.Fatal(err)
		case event.Type == engine.Token:
			got = append(got, event.Token)
		case event.Type == engine.Done:
			return got, event.Err
		}
	}
}

// tunePrompt is long enough for several chunks.
func tunePrompt() (prompt []int32) {
	for i := range 70 {
		prompt = append(prompt, int32(100+i*7%300))
	}
	return prompt
}

func openOnGPU(t *testing.T, o engine.Options) *engine.Engine {
	t.Helper()
	if !kerneltest.HasMetal() {
		t.Skip("there is no simulated Metal device")
	}
	e, err := engine.Open(t.Context(), demoSource(t), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// TestTune tunes the demo model by a fake clock. The next engine uses the best values, and answers
// with the same tokens. An engine of another version, and one that finds a damaged file, does not.
func TestTune(t *testing.T) {
	dir := t.TempDir()
	o := onGPU(dir, sim.Options{})
	plain := openOnGPU(t, o)
	want, err := tokens(t, plain, tunePrompt())
	if err != nil || len(want) != 12 || plain.Info().Tuned != 0 {
		t.Fatal(want, err, plain.Info().Tuned)
	}
	got, err := engine.Tune(t.Context(), demoSource(t), o, fakeClock(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	met := map[string]bool{}
	for _, m := range got.Measured {
		met[m.Choice.Name] = true
		if last := m.Choice.Values[len(m.Choice.Values)-1]; m.Best != last &&
			m.Seconds[last] > 0 {
			t.Errorf("%s: kept %d, expected %d", m.Choice.Name, m.Best, last)
		}
	}
	if len(met) < 6 || len(got.Kept) < 6 || got.Late || got.Model == "" {
		t.Errorf("measured %v, kept %d, late %t", met, len(got.Kept), got.Late)
	}
	tuned := openOnGPU(t, o)
	if n := tuned.Info().Tuned; n != len(got.Kept) {
		t.Errorf("the next engine uses %d values, expected %d", n, len(got.Kept))
	}
	if again, err := tokens(t, tuned, tunePrompt()); err != nil || !slices.Equal(again, want) {
		t.Errorf("tuned: %v, %v, expected %v", again, err, want)
	}
	other := o
	other.Tuning.Version = "2"
	if n := openOnGPU(t, other).Info().Tuned; n != 0 {
		t.Errorf("another version uses %d values", n)
	}
	for _, file := range tuningFiles(t, dir) {
		if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if n := openOnGPU(t, o).Info().Tuned; n != 0 {
		t.Errorf("%d values of a damaged file are used", n)
	}
}

func tuningFiles(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "tuning-*.json"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	return files
}

// TestTuneBudget: tuning stops when its time is over and keeps what it has.
func TestTuneBudget(t *testing.T) {
	if !kerneltest.HasMetal() {
		t.Skip("there is no simulated Metal device")
	}
	got, err := engine.Tune(t.Context(), demoSource(t), onGPU(t.TempDir(), sim.Options{}),
		fakeClock(8*time.Second))
	if err != nil || !got.Late || len(got.Measured) == 0 || len(got.Measured) > 5 {
		t.Errorf("%+v, %v", got, err)
	}
	_, err = engine.Tune(t.Context(), demoSource(t), engine.Options{Device: engine.DeviceCPU},
		engine.TuneOptions{})
	if problem.From(err).Code != problem.DoesNotFit {
		t.Errorf("on the CPU: %v", err)
	}
}

// TestGPUTimeout: the system ends a command buffer. The request gets a Problem that says so, the
// bound is halved for the next engine with this model, and that one gives the tokens that a GPU
// without faults gives.
func TestGPUTimeout(t *testing.T) {
	dir := t.TempDir()
	want, err := tokens(t, openOnGPU(t, onGPU("", sim.Options{})), tunePrompt())
	if err != nil {
		t.Fatal(err)
	}
	var commits atomic.Int64
	fault := sim.Options{Fault: func(int) error {
		if commits.Add(1) > 3 {
			return errors.Join(metal.ErrTimeout, errors.New("injected"))
		}
		return nil
	}}
	e := openOnGPU(t, onGPU(dir, fault))
	for range 2 { // the second one finds the lost device
		_, err = tokens(t, e, tunePrompt())
		if p := problem.From(err); p.Code != problem.GPUTimeout ||
			!strings.Contains(p.Why, "250 ms") || p.Fix == "" || !errors.Is(err, metal.ErrTimeout) {
			t.Fatalf("got %v", err)
		}
	}
	e.Close()
	data, err := os.ReadFile(tuningFiles(t, dir)[0])
	if err != nil || !strings.Contains(string(data), `"BoundMS": 125,`) {
		t.Fatalf("%v: %s", err, data)
	}
	next := openOnGPU(t, onGPU(dir, sim.Options{}))
	if got, err := tokens(t, next, tunePrompt()); err != nil || !slices.Equal(got, want) {
		t.Errorf("afterwards: %v, %v, expected %v", got, err, want)
	}
}
