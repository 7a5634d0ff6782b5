package worker

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"headroom/engine"
	"headroom/engine/problem"
	"headroom/kernels/kerneltest"
	"headroom/metal"
	"headroom/metal/sim"
)

// envTimeout is the environment variable that makes the simulated GPU of a worker end its work
// after some commits, once: it names a file that the first worker creates.
const envTimeout = "HEADROOM_WORKER_GPU_TIMEOUT"

// openFaulty opens the simulated GPU that envTimeout describes.
func openFaulty() (metal.Device, error) {
	marker, commits := os.Getenv(envTimeout), 0
	return sim.Open(sim.Options{Fault: func(int) error {
		if commits++; commits < 4 {
			return nil
		}
		if f, err := os.OpenFile(marker, os.O_CREATE|os.O_EXCL, 0o600); err == nil {
			f.Close()
		}
		return errors.Join(metal.ErrTimeout, errors.New("injected"))
	}})
}

// openGPUOf returns how a worker of this test binary opens its GPU; nil: as usual.
func openGPUOf() func() (metal.Device, error) {
	marker := os.Getenv(envTimeout)
	if marker == "" {
		return nil
	}
	if _, err := os.Stat(marker); err == nil {
		return func() (metal.Device, error) { return sim.Open(sim.Options{}) }
	}
	return openFaulty
}

// answerOf returns the tokens of an answer, and the error of its Done event.
func answerOf(t *testing.T, m *Model) (tokens []int32, err error) {
	t.Helper()
	s, err := m.Submit(engine.Request{Prompt: prompt(t, m, "What is two plus two?"), MaxTokens: 8,
		IgnoreEOS: true})
	if err != nil {
		t.Fatal(err)
	}
	events := read(t, s)
	for _, e := range events {
		if e.Type == engine.Token {
			tokens = append(tokens, e.Token)
		}
	}
	return tokens, events[len(events)-1].Err
}

// TestGPUTimeout: the system ends a command buffer of a worker. The request ends with a Problem
// that says so, the process ends by itself with that reason, which is no prompt's fault, and the
// next process halves the bound and answers with the tokens of a GPU without faults.
func TestGPUTimeout(t *testing.T) {
	if !kerneltest.HasMetal() {
		t.Skip("there is no simulated Metal device")
	}
	dir, settings := t.TempDir(), t.TempDir()
	marker := filepath.Join(dir, "ended")
	t.Setenv(envTimeout, marker)
	o := engine.Options{Device: engine.DeviceMetal, ContextTokens: 512, MaxSequences: 2,
		AvailableBytes: 4 << 30, Tuning: engine.Tuning{Dir: settings, Version: "1"}}
	m := open(t, o)
	_, err := answerOf(t, m)
	if p := problem.From(err); p.Code != problem.GPUTimeout || p.Fix == "" {
		t.Fatalf("got %v", err)
	}
	within(t, m.Died(), "the end of the process")
	if why := m.Cause().Error(); !strings.Contains(why, "the system ended the GPU's work") {
		t.Errorf("the process ended: %s", why)
	}
	if m.process.ending().mayBeTheRequest {
		t.Error("the prompt is suspected")
	}
	files, _ := filepath.Glob(filepath.Join(settings, "tuning-*.json"))
	if len(files) != 1 {
		t.Fatalf("files %v", files)
	}
	if data, err := os.ReadFile(files[0]); err != nil ||
		!strings.Contains(string(data), `"BoundMS": 125,`) {
		t.Errorf("%v: %s", err, data)
	}
	again, err := answerOf(t, open(t, o))
	if err != nil || len(again) != 8 {
		t.Fatalf("the next process: %v, %v", again, err)
	}
	o.Tuning = engine.Tuning{}
	if want, err := answerOf(t, open(t, o)); err != nil || !slices.Equal(again, want) {
		t.Errorf("got %v, without faults %v, %v", again, want, err)
	}
}
