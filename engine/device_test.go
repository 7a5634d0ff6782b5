package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"headroom/engine"
	"headroom/engine/cache"
	"headroom/engine/plan"
	"headroom/engine/problem"
	"headroom/engine/sample"
	"headroom/kernels/kerneltest"
	"headroom/metal"
	"headroom/metal/sim"
)

// openSim opens a model on the simulated Metal device, or skips the test if there is none.
func openSim(t *testing.T, src engine.Source, o engine.Options) *engine.Engine {
	t.Helper()
	return openMetal(t, engine.DeviceSim, src, o)
}

// openMetal opens a model on one of metalDevices, or skips the test if the machine does not have
// it.
func openMetal(t *testing.T, device string, src engine.Source, o engine.Options) *engine.Engine {
	t.Helper()
	o.Device = device
	e, err := engine.Open(context.Background(), src, o)
	for _, unavailable := range errUnavailable {
		if errors.Is(err, unavailable) {
			t.Skip(err) // any other error fails the test
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// TestDefaultDevice checks that the default device is Metal if there is a GPU, and else the CPU. If
// Metal is requested and there is no GPU, Open must fail.
func TestDefaultDevice(t *testing.T) {
	none := func() (metal.Device, error) { return nil, errors.New("no GPU in here") }
	simulated := func() (metal.Device, error) { return sim.Open(sim.Options{}) }
	for _, c := range []struct {
		name, device string
		open         func() (metal.Device, error)
		want         string // prefix of Info.Device; "": an error
	}{
		{"no GPU, default device", "", none, "CPU"},
		{"no GPU, Metal requested", engine.DeviceMetal, none, ""},
		{"GPU, default device", "", simulated, "Metal"},
		{"GPU, CPU requested", engine.DeviceCPU, simulated, "CPU"},
	} {
		e, err := engine.Open(t.Context(), demoSource(t),
			engine.Options{Device: c.device, OpenMetal: c.open, ContextTokens: 256,
				MaxSequences: 1})
		if c.want == "Metal" && !kerneltest.HasMetal() { // simulated returns an error here
			c.want = "CPU"
		}
		switch {
		case c.want == "" && (err == nil ||
			!strings.Contains(problem.From(err).Why, "no GPU in here")):
			t.Errorf("%s: got %v, expected an error with the reason", c.name, err)
		case c.want != "" && (err != nil || !strings.HasPrefix(e.Info().Device, c.want)):
			t.Errorf("%s: error %v, expected the model to open on %s", c.name, err, c.want)
		}
		if err == nil {
			e.Close()
		}
	}
}

// full is a device with too little memory. If sets is nil, no buffer can be allocated. Otherwise
// buffers can be allocated, but none can be kept resident. sets then records the attempts.
type full struct {
	metal.Device
	sets *[]string
}

func (d full) WrapBuffer(label string, memory []byte) (metal.Buffer, error) {
	if d.sets == nil {
		return nil, errors.New("no more memory")
	}
	return d.Device.WrapBuffer(label, memory)
}

func (d full) MakeResident(label string, _ []metal.Buffer) error {
	*d.sets = append(*d.sets, label)
	return errors.New("cannot be kept")
}

// TestMetalMemory checks that if the GPU cannot allocate the memory, loading the model fails, not
// the first request. A model whose weights cannot be kept resident must still run.
func TestMetalMemory(t *testing.T) {
	for _, sets := range []*[]string{nil, {}} {
		open := func() (metal.Device, error) {
			m, err := sim.Open(sim.Options{})
			return full{m, sets}, err
		}
		e, err := engine.Open(t.Context(), demoSource(t),
			engine.Options{Device: engine.DeviceMetal, OpenMetal: open, ContextTokens: 256,
				MaxSequences: 1})
		if !kerneltest.HasMetal() {
			t.Skip("there is no simulated Metal device")
		}
		if err == nil {
			e.Close()
		}
		switch {
		case sets == nil && (err == nil || problem.From(err).Code != problem.DoesNotFit ||
			!strings.Contains(problem.From(err).Why, "no more memory")):
			t.Errorf("without memory: got %v, expected %s with the reason", err,
				problem.DoesNotFit)
		case sets != nil && (err != nil || !slices.Equal(*sets, []string{"weights"})):
			t.Errorf("error %v, resident sets %q: expected no error and one attempt for weights",
				err, *sets)
		}
	}
}

// TestLongCaches checks that a requested context whose cache is longer than a buffer of the GPU is
// refused with the longest context that fits.
func TestLongCaches(t *testing.T) {
	const longest = 4 << 20
	for _, c := range []struct {
		sequences int
		kv        cache.FormatOptions
	}{{sequences: 1}, {sequences: 4}, {2, cache.FormatOptions{Name: "f16"}},
		{2, cache.FormatOptions{StartTokens: 1024}}} {
		check := func(context int) error {
			return planned(t, plan.Options{ContextTokens: context, MaxSequences: c.sequences,
				KVFormat: c.kv, NoPrefixCache: true, LongestBuffer: longest}).CheckBuffers()
		}
		err := check(32768)
		fits := 0
		if p := problem.From(err); err != nil {
			fmt.Sscanf(p.Fix, "Use a context of at most %d tokens", &fits)
		}
		if fits == 0 {
			t.Fatalf("%+v: got %v, expected the longest context that fits", c, err)
		}
		if err := check(fits); err != nil {
			t.Errorf("%+v: %d tokens, as advised: %v", c, fits, err)
		}
		if check(fits+1024) == nil {
			t.Errorf("%+v: %d tokens fit, the advice is %d", c, fits+1024, fits)
		}
	}
	// The state of a sequence takes 256 KiB in each recurrent layer.
	o := plan.Options{ContextTokens: 2048, MaxSequences: 17, NoPrefixCache: true,
		LongestBuffer: longest}
	err := planned(t, o).CheckBuffers()
	if p := problem.From(err); err == nil || p.Code != problem.DoesNotFit ||
		!strings.HasPrefix(p.Fix, "Allow fewer requests at once") ||
		!strings.Contains(p.Why, "layer 0 needs a buffer") {
		t.Errorf("17 sequences: got %v, expected the advice to allow fewer", err)
	}
	if o.MaxSequences = 16; planned(t, o).CheckBuffers() != nil {
		t.Errorf("16 sequences: %v", planned(t, o).CheckBuffers())
	}
	if !kerneltest.HasMetal() {
		return
	}
	open := func() (metal.Device, error) { return sim.Open(sim.Options{MaxBufferLength: longest}) }
	e, err := engine.Open(t.Context(), demoSource(t), engine.Options{Device: engine.DeviceMetal,
		OpenMetal: open, ContextTokens: 32768, MaxSequences: 1, NoPrefixCache: true})
	if err == nil {
		e.Close()
	}
	if err == nil || !strings.Contains(problem.From(err).Fix, "Use a context of at most") {
		t.Errorf("opening the model: got %v, expected the advice to shorten the context", err)
	}
}

// TestShortBuffers checks that a plan adapts to a GPU with short buffers what the user has not
// requested: the context, the chunks, the kept states and the pages of a second sequence.
func TestShortBuffers(t *testing.T) {
	for _, c := range []struct {
		longest   int
		o         plan.Options
		unchanged bool
	}{
		{longest: 4 << 20},
		{longest: 4 << 20, o: plan.Options{KVFormat: cache.FormatOptions{StartTokens: 1024}}},
		{longest: 4 << 20, o: plan.Options{MaxKVTokens: 1024, MaxSequences: 2}},
		{longest: 2 << 20, o: plan.Options{MaxSequences: 2}},
		{longest: 1 << 20, o: plan.Options{MaxSequences: 1}},
		{longest: 1 << 40, unchanged: true},
	} {
		whole := planned(t, c.o)
		c.o.LongestBuffer = c.longest
		p := planned(t, c.o)
		if err := p.CheckBuffers(); err != nil {
			t.Errorf("buffers of %d bytes, %+v: %v", c.longest, c.o, err)
		}
		if p.MaxSequences != whole.MaxSequences || p.ContextTokens < 2048 {
			t.Errorf("buffers of %d bytes: %d sequences of %d tokens", c.longest, p.MaxSequences,
				p.ContextTokens)
		}
		same := p.ContextTokens == whole.ContextTokens && p.ChunkTokens == whole.ChunkTokens &&
			p.Runner.Pages == whole.Runner.Pages && p.KeptStates == whole.KeptStates
		if same != c.unchanged {
			t.Errorf("buffers of %d bytes: the plan is the same: %t, expected %t", c.longest, same,
				c.unchanged)
		}
	}
	// A single row of logits is longer than these buffers.
	p := planned(t, plan.Options{MaxSequences: 1, LongestBuffer: 4096})
	if err := p.CheckBuffers(); err == nil || problem.From(err).Code != problem.DoesNotFit {
		t.Errorf("buffers of 4096 bytes: got %v, expected a refusal", err)
	}
}

// planned returns a plan of the demo model with plenty of memory.
func planned(t *testing.T, o plan.Options) *plan.Plan {
	t.Helper()
	o.AvailableBytes = 1 << 40
	p, err := plan.New(demoSource(t), o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestMetal checks that the demo model gives the same answers on the simulated Metal device as on
// the CPU.
func TestMetal(t *testing.T) {
	onMetalDevices(t, testMetal)
}

// The devices that run Metal kernels. With the build tag nv, device_nv_test.go adds the NVIDIA GPU.
var (
	metalDevices   = []string{engine.DeviceSim}
	errUnavailable = []error{sim.ErrUnavailable}
	nvOnly         bool // HEADROOM_NV or HEADROOM_NV_CACHE selects the NVIDIA GPU
	compileOnly    bool // HEADROOM_NV selects compiling without running, so results are undefined
)

// onMetalDevices runs a test on each of metalDevices.
func onMetalDevices(t *testing.T, f func(t *testing.T, device string)) {
	for _, device := range metalDevices {
		t.Run(device, func(t *testing.T) {
			if device == engine.DeviceSim && (testing.Short() || nvOnly) {
				t.Skip("the simulated device is slow")
			}
			f(t, device)
		})
	}
}

func testMetal(t *testing.T, device string) {
	e := openMetal(t, device, demoSource(t),
		engine.Options{ContextTokens: 512, MaxSequences: 2, ChunkTokens: 64, NoPrefixCache: true})
	onCPU := open(t, engine.Options{Float32Activations: true, ContextTokens: 512})
	for _, text := range []string{question,
		"<|im_start|>user\nWhat is a KV " +
			"cache?<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"} {
		r := engine.Request{Prompt: encode(e, text), MaxTokens: 12,
			Sampling: sample.Params{Logprobs: -1}}
		want := run(t, onCPU, r, 0)
		got := run(t, e, r, 0)
		if got.done.Err != nil {
			t.Fatal(got.done.Err)
		}
		if !compileOnly && !slices.Equal(got.tokens, want.tokens) {
			t.Errorf("tokens %v, on the CPU %v", got.tokens, want.tokens)
		}
	}
}

// TestMetalTiny checks that every architecture gives the tokens of the CPU on the simulated Metal
// device, in the default and in plain cache formats: every second in one of them, and all in both
// with HEADROOM_LONG.
func TestMetalTiny(t *testing.T) {
	onMetalDevices(t, testMetalTiny)
}

func testMetalTiny(t *testing.T, device string) {
	models, err := os.ReadDir(filepath.Join("models", "testdata", "tiny"))
	if err != nil || len(models) == 0 {
		t.Fatalf("%d tiny models, %v", len(models), err)
	}
	for i, m := range models {
		for j, format := range []string{"", "f16"} {
			if (i+2*j)%4 > 0 && !long() && device != engine.DeviceNV {
				continue
			}
			o := engine.Options{KVFormat: format, ContextTokens: 256, MaxSequences: 1,
				ChunkTokens: 32, NoPrefixCache: true}
			e := openMetal(t, device, tinySource(t, m.Name()), o)
			o.Float32Activations = true
			onCPU := openModel(t, tinySource(t, m.Name()), o)
			r := engine.Request{Prompt: someIDs(5, 70), MaxTokens: 8, IgnoreEOS: true,
				Sampling: sample.Params{Logprobs: -1}}
			want, got := run(t, onCPU, r, 0), run(t, e, r, 0)
			if got.done.Err != nil || !compileOnly && !slices.Equal(got.tokens, want.tokens) {
				t.Errorf("%s, %q: tokens %v (%v), on the CPU %v", m.Name(), format, got.tokens,
					got.done.Err, want.tokens)
			}
			attend := "attend_prefill"
			if config, _ := tinySource(t, m.Name()).ReadFile("config.json"); bytes.Contains(config,
				[]byte(`"kv_lora_rank"`)) {
				attend = "attend" // latent attention has no kernel of its own for prefill
			}
			for _, kernel := range []string{"prefill", attend, "linear_1"} {
				if ran := e.MetalKernels(); !ran[kernel] {
					t.Errorf("%s: ran kernels %v, expected %s among them", m.Name(), ran, kernel)
				}
			}
			e.Close()
			onCPU.Close()
		}
	}
}
