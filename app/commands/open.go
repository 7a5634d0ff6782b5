package commands

// What the commands that run a model have in common: the flags, the way from flags to engine
// options, and loading with a progress bar.

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/schollz/progressbar/v3"

	"headroom/app/host"
	"headroom/app/library"
	"headroom/app/memory"
	"headroom/app/power"
	"headroom/app/settings"
	"headroom/app/version"
	"headroom/app/worker"
	"headroom/engine"
)

// ModelFlags are how a model is found and run, in every command that runs one.
type ModelFlags struct {
	Device       string `help:"What computes: cpu, metal (a Mac's GPU) or, for development, sim and nv (the same kernels, simulated and on an NVIDIA GPU). Default: metal where there is one that passes its self-test." enum:",cpu,metal,sim,nv" default:"" placeholder:"DEVICE"`
	Threads      int    `help:"Threads that compute; 0: one a core." placeholder:"N"`
	Context      int    `help:"Longest conversation in tokens; 0: what the model was trained for, or what fits." placeholder:"TOKENS"`
	Float32      bool   `name:"float32" help:"Exact activations; several times slower."`
	NoPrefixes   bool   `name:"no-prefix-cache" help:"Read every prompt from its beginning, even what has been read before."`
	MaxSequences int    `help:"Requests that run at once; 0: 8." placeholder:"N"`
	KVFlags
	CacheFlags
	ModelsDir []string `help:"More folders to look for models in." placeholder:"DIR" sep:"none" type:"path"`
}

// Validate is called by kong: a number below zero is a slip, not a wish for the default.
func (f *ModelFlags) Validate() error {
	for _, n := range []struct {
		flag  string
		value int
	}{{"--threads", f.Threads}, {"--context", f.Context}, {"--max-sequences", f.MaxSequences},
		{"--max-kv-size", f.MaxKVSize},
		{"--quantized-kv-start", f.QuantizedKVStart}, {"--prompt-cache-size", f.PromptCacheSize}} {
		if n.value < 0 {
			return fmt.Errorf("%s is %d, expected 0 or more", n.flag, n.value)
		}
	}
	if f.MaxStall < 0 {
		return fmt.Errorf("--max-stall is %s, expected 0 or more", f.MaxStall)
	}
	return nil
}

// options are the flags, and where they are silent the settings, for the model of that ID.
func (f *ModelFlags) options(s settings.Settings, id string) engine.Options {
	m := s.ForModel(id)
	kv := f.KVFlags.or(m)
	o := kv.apply(engine.Options{Device: f.Device, Threads: f.Threads,
		ContextTokens: cmp.Or(f.Context, m.ContextTokens), Float32Activations: f.Float32,
		MaxSequences: cmp.Or(f.MaxSequences, m.MaxSequences), NoPrefixCache: f.NoPrefixes})
	return f.CacheFlags.or(s.Cache).apply(o)
}

// givenModel is what the flags say about every model, as settings.
func (f *ModelFlags) givenModel() settings.Model {
	return settings.Model{ContextTokens: f.Context, MaxSequences: f.MaxSequences,
		KVFormat: f.KVFormat, KVBits: f.KVBits, KVGroupSize: f.KVGroupSize,
		KVBoundaryLayers: f.KVBoundaryLayers, KVBoundaryBits: f.KVBoundaryBits,
		StateFormat: f.StateFormat, MaxKVTokens: f.MaxKVSize}
}

// KVFlags choose how keys, values and recurrent states are kept.
type KVFlags struct {
	KVFormat         string `name:"kv-format" help:"KV cache: f16, bf16, f32, affine, q8_0 or q4_0." enum:",f16,bf16,f32,affine,q8_0,q4_0" default:"" placeholder:"FORMAT"`
	KVBits           string `name:"kv-bits" help:"Bits of affine keys and values, as \"(8, 4)\", or one number for both." placeholder:"BITS"`
	KVGroupSize      string `name:"kv-group-size" help:"Group sizes of affine keys and values, as \"(64, 32)\", or one number." placeholder:"SIZES"`
	KVBoundaryLayers *int   `name:"kv-boundary-layers" help:"Attention layers at each end that keep more bits; 2 unless given." placeholder:"N"`
	KVBoundaryBits   int    `name:"kv-boundary-bits" help:"How many; 0: 8." placeholder:"BITS"`
	QuantizedKVStart int    `name:"quantized-kv-start" help:"First tokens of a conversation that stay float16, for good; rounded up to a multiple of 512. 0: none." placeholder:"TOKENS"`
	StateFormat      string `name:"state-format" help:"States of recurrent layers: f32, bf16 or int8; f32 unless given." enum:",f32,bf16,int8" default:"" placeholder:"FORMAT"`
	MaxKVSize        int    `name:"max-kv-size" help:"Most tokens that are kept of a conversation: its first 4 and its last ones; 0: all." placeholder:"TOKENS"`
}

// or is the flags, and where they are silent the model's settings.
func (f KVFlags) or(m settings.Model) KVFlags {
	return KVFlags{KVFormat: cmp.Or(f.KVFormat, m.KVFormat), KVBits: cmp.Or(f.KVBits, m.KVBits),
		KVGroupSize:      cmp.Or(f.KVGroupSize, m.KVGroupSize),
		KVBoundaryLayers: cmp.Or(f.KVBoundaryLayers, m.KVBoundaryLayers),
		KVBoundaryBits:   cmp.Or(f.KVBoundaryBits, m.KVBoundaryBits),
		QuantizedKVStart: cmp.Or(f.QuantizedKVStart, m.KVStartTokens),
		StateFormat:      cmp.Or(f.StateFormat, m.StateFormat),
		MaxKVSize:        cmp.Or(f.MaxKVSize, m.MaxKVTokens)}
}

func (f *KVFlags) apply(o engine.Options) engine.Options {
	o.KVFormat, o.KVBits, o.KVGroupSize, o.KVBoundaryBits = f.KVFormat, f.KVBits, f.KVGroupSize,
		f.KVBoundaryBits
	o.KVStartTokens, o.StateFormat, o.MaxKVTokens = f.QuantizedKVStart, f.StateFormat, f.MaxKVSize
	if n := f.KVBoundaryLayers; n != nil {
		o.KVBoundaryLayers = *n
		if *n == 0 {
			o.KVBoundaryLayers = -1 // none, where 0 would mean the default
		}
	}
	return o
}

// args are the flags for a process of the same.
func (f *KVFlags) args() []string {
	args := []string{"--kv-format=" + f.KVFormat, "--kv-bits=" + f.KVBits,
		"--kv-group-size=" + f.KVGroupSize, fmt.Sprintf("--kv-boundary-bits=%d", f.KVBoundaryBits),
		fmt.Sprintf("--quantized-kv-start=%d", f.QuantizedKVStart),
		fmt.Sprintf("--max-kv-size=%d", f.MaxKVSize), "--state-format=" + f.StateFormat}
	if f.KVBoundaryLayers != nil {
		args = append(args, fmt.Sprintf("--kv-boundary-layers=%d", *f.KVBoundaryLayers))
	}
	return args
}

func (f *ModelFlags) library(s *settings.File) *library.Library {
	roots := library.Roots(append(slices.Clone(f.ModelsDir), s.Get().ImportFolder))
	return library.NewPerModel(roots,
		func(id string) engine.Options { return f.options(s.Get(), id) }, engine.Describe)
}

// hostUse is what commands want of a host that their flags do not say.
type hostUse struct {
	lastModel string // what Start without a name means at first
	// conversations are kept on disk where neither flags nor settings decide
	ssd       bool
	watch     bool                 // the list of models follows the disk
	worker    bool                 // the model runs in a process of its own
	restAfter func() time.Duration // see host.Options
	power     bool                 // battery and heat are looked at
}

// newHost makes the host that the command will close.
func (f *ModelFlags) newHost(s *settings.File, use hostUse) *host.Host {
	o := host.Options{Version: version.Version, Library: f.library(s), Meter: &memory.Meter{},
		LastModel: use.lastModel, IdleUnload: use.restAfter,
		Engine: func(id string) engine.Options { return f.options(s.Get(), id) },
		Device: newGate().Device}
	if !f.NoPrefixes {
		o.Cache = f.CacheFlags.ssd(s.Get().Cache, use.ssd)
	}
	if use.power {
		o.Power = func() (power.State, power.Policy) {
			now := s.Get()
			return power.Read(), power.Policy{SaveOnBattery: now.SaveOnBattery,
				EaseWhenHot: now.EaseWhenHot}
		}
	}
	if use.worker {
		o.Device = (&worker.Gate{Dir: gateDir()}).Device
		o.Open = func(ctx context.Context, src engine.Source, o engine.Options) (host.Engine,
			error) {
			m, err := worker.Open(ctx, src, o, worker.Options{})
			if err != nil {
				return nil, err // not a nil *Model inside an Engine
			}
			return m, nil
		}
	}
	if use.watch {
		o.Watch = &library.WatchOptions{Paused: s.Get().PauseWatching}
		o.RememberPause = func(paused bool) error {
			return s.Change(func(s *settings.Settings) { s.PauseWatching = paused })
		}
	}
	return host.New(o)
}

// load starts a model and waits for it, with a bar where somebody looks.
func load(ctx context.Context, h *host.Host, model string, errOut io.Writer) error {
	if err := h.Start(model); err != nil {
		return err
	}
	if isTerminal(errOut) {
		finish := showProgress(h, errOut)
		defer finish()
	}
	return h.Wait(ctx)
}

// showProgress draws the bar until the returned function is called, which wipes it. What loads
// within a blink gets none.
func showProgress(h *host.Host, out io.Writer) (finish func()) {
	const blink = 200 * time.Millisecond
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-stop:
			return
		case <-time.After(blink):
		}
		bar := progressbar.NewOptions(100, progressbar.OptionSetWriter(out),
			progressbar.OptionClearOnFinish(),
			progressbar.OptionSetDescription("Loading "+h.State().Engine.Model),
			progressbar.OptionSetPredictTime(false))
		defer func() { _ = bar.Finish() }()
		_ = bar.RenderBlank() // at 0 % too: that is when people wonder
		changed, done := h.Subscribe()
		defer done()
		for {
			_ = bar.Set(int(100 * h.State().Engine.Progress))
			select {
			case <-stop:
				return
			case <-changed:
			}
		}
	}()
	return func() {
		close(stop)
		<-ended
	}
}
