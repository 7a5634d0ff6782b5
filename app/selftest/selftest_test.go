package selftest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"headroom/engine"
	"headroom/kernels"
	"headroom/kernels/golden"
	"headroom/metal"
	"headroom/metal/sim"
)

var update = flag.Bool("update", false,
	"write answers.json from the CPU's answers with float32 activations")

// questions are the questions in answers.json. Each answer has answerTokens tokens.
var questions = []string{"What is 76 - 27?", "What is a KV cache?"}

const answerTokens = 12

// TestAnswers compares answers.json with the CPU's answers. The engine's tests show that the
// simulated device gives the same.
func TestAnswers(t *testing.T) {
	e, err := openDemo(t.Context(),
		engine.Options{Device: engine.DeviceCPU, Float32Activations: true})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	var all []answer
	for _, q := range questions {
		tokens, err := generate(t.Context(), e, q, answerTokens)
		if err != nil || len(tokens) != answerTokens {
			t.Fatalf("%q: %v, %v", q, tokens, err)
		}
		all = append(all, answer{q, tokens})
	}
	text, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	text = append(text, '\n')
	if *update {
		if err := os.WriteFile("answers.json", text, 0o644); err != nil {
			t.Fatal(err)
		}
	} else if !bytes.Equal(text, answersText) {
		t.Errorf("answers.json differs from the demo model's answers: %s; if the model has "+
			"changed, run `go test ./app/selftest -update`", text)
	}
}

// simulated returns a function that opens a simulated device. It skips the test if there is none.
func simulated(t *testing.T) func() (metal.Device, error) {
	t.Helper()
	open := func() (metal.Device, error) { return sim.Open(sim.Options{}) }
	m, err := open()
	if errors.Is(err, sim.ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	m.Close()
	return open
}

// TestShortForm: the simulated device passes the short form, and the report has all its parts.
func TestShortForm(t *testing.T) {
	open := simulated(t)
	if testing.Short() {
		t.Skip("the simulated device is slow")
	}
	var progress []string
	r, err := Run(t.Context(),
		Options{Open: open, Short: true, Version: "v1.2",
			Say: func(line string) { progress = append(progress, line) }})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range r.Failures() {
		t.Errorf("%s, %s: %v", c.Group, c.Name, c.Err)
	}
	for _, c := range r.Checks {
		if c.Note != "" {
			t.Errorf("%s, %s: %s", c.Group, c.Name, c.Note)
		}
	}
	var text strings.Builder
	if err := r.Write(&text, true); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Headroom v1.2 self-test, short form", "simulated Metal device",
		"PASSED", "recording 1000 dispatches", "simd_sum adds neighbours",
		"rms_norm", "passed kernels, norm: ", "norm/rms_norm.metal",
		`passed the demo model, "What is 76 - 27?"`} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the report has no %q:\n%s", want, text.String())
		}
	}
	if !slices.Contains(progress, groupDemo) || !slices.Contains(progress, groupKernels+": norm") {
		t.Errorf("progress %q", progress)
	}
	t.Log(r.Took)
}

// faulty is a device with an injected fault.
type faulty struct {
	metal.Device
	fault string
}

func (d faulty) NewCommands() metal.Commands {
	return &faultyCommands{Commands: d.Device.NewCommands(), fault: d.fault}
}

func (d faulty) WrapBuffer(label string, memory []byte) (metal.Buffer, error) {
	if d.fault == "weights" && label == "weights" {
		return nil, errors.New("not a mapped file")
	}
	return d.Device.WrapBuffer(label, memory)
}

type faultyCommands struct {
	metal.Commands
	fault string
	runs  int
}

func (c *faultyCommands) Dispatch(label string, groups, threads metal.Size) {
	c.runs++
	if c.fault == "rows" && label == "rms_norm" || c.fault == "sometimes" && label == "rms_norm" &&
		c.runs%2 == 0 {
		if groups.X--; groups.X == 0 { // the last row is not computed
			return
		}
	}
	if c.fault == "panic" && label == "rms_norm" {
		panic("injected panic")
	}
	c.Commands.Dispatch(label, groups, threads)
}

func (c *faultyCommands) Commit(done func(error)) {
	if c.fault == "lost" && c.runs > 0 {
		c.Commands.SetThreadgroupMemory(0, 3) // an error that Wait returns
	}
	c.Commands.Commit(done)
}

// TestFaults injects wrong results, results that change from run to run, an error of the device and
// a panic. Each makes a check fail.
func TestFaults(t *testing.T) {
	open := simulated(t)
	fewFamilies(t)
	for _, x := range []struct{ fault, group, want string }{
		{"rows", groupKernels, "norm: rms_norm"},
		{"sometimes", groupKernels, "other bits than the first run"},
		{"lost", groupProbes, "SetThreadgroupMemory"},
		{"panic", groupKernels, "injected panic"},
	} {
		r, err := Run(t.Context(),
			Options{Short: true, Repeats: 4, Open: func() (metal.Device, error) {
				m, err := open()
				return faulty{m, x.fault}, err
			}})
		if err != nil {
			t.Fatal(err)
		}
		failed := r.Failures()
		if r.Passed() || !slices.ContainsFunc(failed,
			func(c Check) bool {
				return c.Group == x.group &&
					strings.Contains(c.Name+": "+c.Err.Error(), x.want)
			}) {
			t.Errorf("%s: failures %v, expected one in %q with %q", x.fault, failed, x.group,
				x.want)
		}
		if !strings.Contains(r.FirstFailure(), x.group) {
			t.Errorf("%s: the first failure is %q", x.fault, r.FirstFailure())
		}
		var text strings.Builder
		if err := r.Write(&text, false); err != nil ||
			!strings.Contains(text.String(), "FAILED "+x.group) {
			t.Errorf("%s: the report does not show the failure (%v):\n%s", x.fault, err,
				text.String())
		}
	}
}

// TestCopiedWeights: a device that copies weights passes with a note.
func TestCopiedWeights(t *testing.T) {
	open := simulated(t)
	r := &Report{}
	copying := func() (metal.Device, error) {
		m, err := open()
		return faulty{m, "weights"}, err
	}
	if err := r.checkMapping(&Options{Open: copying}); err != nil {
		t.Fatal(err)
	}
	if !r.Passed() || !strings.Contains(r.Checks[0].Note, "not a mapped file") {
		t.Errorf("checks %+v", r.Checks)
	}
}

// TestWrongAnswer: an answer that differs from the expected one fails, and the error quotes both.
func TestWrongAnswer(t *testing.T) {
	open := simulated(t)
	if testing.Short() {
		t.Skip("the simulated device is slow")
	}
	wantAnswers = func() []answer { return []answer{{"What is 76 - 27?", []int32{22, 22}}} }
	defer func() { wantAnswers = answers }()
	r := &Report{}
	r.demo(t.Context(), &Options{Open: open, Say: func(string) {}})
	if failed := r.Failures(); len(failed) != 1 ||
		!strings.Contains(failed[0].Err.Error(),
			`tokens [22 21], expected [22 22] ("76", expected "77")`) {
		t.Errorf("failures %v, expected that tokens 22 21 differ from 22 22", failed)
	}
}

// TestNoReport: without a device there is no report, and a cancelled run ends early.
func TestNoReport(t *testing.T) {
	noGPU := errors.New("no GPU in here")
	fail := func() (metal.Device, error) { return nil, noGPU }
	if r, err := Run(t.Context(), Options{Open: fail}); !errors.Is(err, noGPU) || r != nil {
		t.Errorf("got %v, %v", r, err)
	}
	open := simulated(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, Options{Open: open}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v, expected context.Canceled", err)
	}
}

// TestOtherOperands: a case with other operands than its golden vector is compared with the
// reference.
func TestOtherOperands(t *testing.T) {
	d := kernels.NewReference()
	defer d.Close()
	f := familyOf(t, "norm")
	c := f.Cases[0]
	vectors, err := golden.Load(f.Name)
	if err != nil {
		t.Fatal(err)
	}
	v := vectors[c.Name]
	v.Inputs, v.Outputs[0].Values[0] = v.Inputs+1, 1e9
	if note, err := checkCase(d, c, v, 1); err != nil || !strings.Contains(note, "other operands") {
		t.Errorf("%s: %q, %v; expected a note and no error", c.Name, note, err)
	}
}
