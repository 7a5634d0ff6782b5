package commands

// Shared by the commands that run a model: their flags, the engine options from flags and settings,
// and loading with a progress bar.

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"

	"headroom/app/control"
	"headroom/app/host"
	"headroom/app/library"
	"headroom/app/memory"
	"headroom/app/parity"
	"headroom/app/power"
	"headroom/app/service"
	"headroom/app/settings"
	"headroom/app/version"
	"headroom/app/worker"
	"headroom/engine"
)

// ModelFlags are the flags of every command that runs a model: where it is found and how it runs.
type ModelFlags struct {
	Device         string  `help:"Device to run on: cpu, metal (a Mac's GPU) or, for development, sim and nv (the Metal kernels, simulated and on an NVIDIA GPU). Default: metal if the GPU passes its self-test, else cpu." enum:",cpu,metal,sim,nv" default:"" placeholder:"DEVICE"`
	Threads        int     `help:"Compute threads. Default: one per performance core." placeholder:"N"`
	Context        int     `help:"Context length in tokens. Default: the model's, or as much as fits in memory." placeholder:"TOKENS"`
	Float32        bool    `name:"float32" help:"Compute activations in float32; several times slower."`
	NoPrefixes     bool    `name:"no-prefix-cache" help:"Process every prompt from the start, without reusing cached prefixes."`
	MaxSequences   int     `aliases:"decode-concurrency" help:"Maximum number of requests that run at once, up to 256. Default: 8, or 32 for batch." placeholder:"N"`
	Speculate      string  `help:"How tokens are decoded ahead where that is faster: by lookup of what the prompt already says, by the model's own block or its assistant (mtp), by a draft model (draft), by a DFlash drafter (dflash), by whichever is faster (auto), or off. No answer depends on it. Default: auto." placeholder:"HOW"`
	DraftModel     string  `help:"Smaller model with the same vocabulary, a DFlash drafter or an assistant (Gemma 4) for the model, or the folder of a block for it (MTP), which drafts tokens in place of the model's own block: an ID, a name, an alias or a folder. Default: draftModel in the model's settings, or none." placeholder:"DIR_OR_NAME"`
	NumDraftTokens int     `help:"Maximum number of tokens that the draft model drafts for a pass, up to 8. Default: as many as are worth their time." placeholder:"N"`
	Adapter        onceDir `aliases:"adapter-path" help:"Folder of a LoRA or DoRA adapter for the model, written by mlx_lm.lora or PEFT, for every request to that model that names none. One in the list of models needs no flag: name it as MODEL+ADAPTER." placeholder:"DIR"`
	KVFlags
	CacheFlags
	sequences int // MaxSequences if neither flag nor settings have it; 0: the engine's
	// saved are the options of a prompt cache, in place of the model's settings; nil: there is none
	saved        *settings.Model
	promptCaches bool     // the command saves or loads one
	ModelsDir    []string `help:"Another folder to look for models in, up to four levels deep; may be repeated." placeholder:"DIR" sep:"none" type:"path"`
}

// Validate rejects negative numbers, as 0 means the default, and ways to decode ahead that do not
// exist. kong calls it.
func (f *ModelFlags) Validate() error {
	for _, n := range []struct {
		flag  string
		value int
	}{{"--context", f.Context}, {"--max-sequences", f.MaxSequences},
		{"--max-kv-size", f.MaxKVSize}, {"--snapkv-tokens", f.SnapKVTokens},
		{"--quantized-kv-start", f.QuantizedKVStart}, {"--prompt-cache-size", f.PromptCacheSize}} {
		if n.value < 0 {
			return fmt.Errorf("%s is %d, expected 0 or more", n.flag, n.value)
		}
	}
	if f.MaxSequences > control.MaxSequences {
		return fmt.Errorf("--max-sequences is %d, expected 0 to %d: memory is reserved for each "+
			"request that may run", f.MaxSequences, control.MaxSequences)
	}
	if err := checkThreads(f.Threads); err != nil {
		return err
	}
	if f.MaxPrefillStall < 0 {
		return fmt.Errorf("--max-prefill-stall is %s, expected 0 or more", f.MaxPrefillStall)
	}
	if err := engine.CheckDraftTokens(f.NumDraftTokens); err != nil {
		return fmt.Errorf("--num-draft-tokens: %w", err)
	}
	if f.Speculate != "" {
		if err := engine.CheckSpeculate(f.Speculate); err != nil {
			return fmt.Errorf("--speculate: %w", err)
		}
	}
	return f.checkTogether()
}

// maxThreads is more than any machine has cores. The Go runtime ends a program that starts
// thousands of threads.
const maxThreads = 1024

// Validate rejects a number of threads that no machine has. kong calls it, as that of the others.
func (c *BenchSpeed) Validate() error { return checkThreads(c.Threads) }

// Validate is like that of BenchSpeed.
func (c *BenchCache) Validate() error { return checkThreads(c.Threads) }

// Validate is like that of BenchSpeed.
func (c *BenchTable) Validate() error { return checkThreads(c.Threads) }

func checkThreads(n int) error {
	if n < 0 || n > maxThreads {
		return fmt.Errorf("--threads is %d, expected 0 to %d", n, maxThreads)
	}
	return nil
}

// options returns the engine options for a model: the flags, else its settings.
func (f *ModelFlags) options(s settings.Settings, id string) engine.Options {
	m := f.over(s.ForModel(id))
	o := f.KVFlags.or(m).apply(engine.Options{Device: f.Device, Threads: f.Threads,
		ContextTokens: cmp.Or(f.Context, m.ContextTokens), Float32Activations: f.Float32,
		MaxSequences:  cmp.Or(f.MaxSequences, m.MaxSequences, f.sequences),
		NoPrefixCache: f.NoPrefixes, PromptCaches: f.promptCaches, Tuning: tuningDir()})
	o.Speculate = cmp.Or(f.Speculate, m.Speculate, engine.SpeculateAuto)
	if o.DraftModel = f.draftModel(s, id); o.DraftModel != nil && f.DraftModel != "" &&
		f.Speculate == "" && m.Speculate != engine.SpeculateDraft &&
		m.Speculate != engine.SpeculateDFlash {
		o.Speculate = engine.SpeculateAuto // a flag overrides a setting
	}
	return f.CacheFlags.or(s.Cache).apply(o)
}

// givenModel returns the model flags as settings; zero fields were not given.
func (f *ModelFlags) givenModel() settings.Model {
	m := f.KVFlags.model()
	m.ContextTokens, m.MaxSequences, m.Speculate = f.Context, f.MaxSequences, f.Speculate
	m.DraftModel, m.NumDraftTokens = f.DraftModel, f.NumDraftTokens
	return m
}

// model returns the flags as settings; zero fields were not given.
func (f KVFlags) model() settings.Model {
	return settings.Model{KVFormat: f.KVFormat, KVBits: f.KVBits, KVGroupSize: f.KVGroupSize,
		KVBoundaryLayers: f.KVBoundaryLayers, KVBoundaryBits: int(f.KVBoundaryBits),
		KVStartTokens: f.QuantizedKVStart, StateFormat: f.StateFormat, MaxKVTokens: f.MaxKVSize,
		SnapKV: f.SnapKV, SnapKVTokens: f.SnapKVTokens}
}

// KVFlags set the formats of the KV cache and of recurrent states.
type KVFlags struct {
	KVFormat         string       `name:"kv-format" help:"Format of the KV cache: f16, bf16, f32, affine, q8_0 or q4_0." enum:",f16,bf16,f32,affine,q8_0,q4_0" default:"" placeholder:"FORMAT"`
	KVBits           string       `name:"kv-bits" help:"Bits of affine keys and values: \"(8, 4)\", or one number for both." placeholder:"BITS"`
	KVGroupSize      string       `name:"kv-group-size" help:"Group sizes of affine keys and values: \"(64, 32)\", or one number for both." placeholder:"SIZES"`
	KVBoundaryLayers *int         `name:"kv-boundary-layers" help:"Attention layers at each end of the model that keep more bits. Default: 2." placeholder:"N"`
	KVBoundaryBits   boundaryBits `name:"kv-boundary-bits" help:"Bits of the boundary layers: 8, or \"(8, 8)\". Default: 8." placeholder:"BITS"`
	QuantizedKVStart int          `name:"quantized-kv-start" help:"Tokens at the start of a conversation that stay float16, rounded up to a multiple of 512. Default: none." placeholder:"TOKENS"`
	StateFormat      string       `name:"state-format" help:"Format of recurrent states: f32, bf16 or int8. Default: f32." enum:",f32,bf16,int8" default:"" placeholder:"FORMAT"`
	MaxKVSize        int          `name:"max-kv-size" help:"Maximum number of a conversation's tokens in the KV cache: the first 4 and the latest. Default: no limit." placeholder:"TOKENS"`
	SnapKV           *bool        `name:"snapkv" help:"Let the answer to a prompt of 49,152 tokens or more attend to a part of it, selected by the end of the prompt. Faster, but the answer may miss something. On the CPU only." negatable:""`
	SnapKVTokens     int          `name:"snapkv-tokens" help:"Tokens of the prompt that --snapkv selects for each layer and KV head. Default: 4096." placeholder:"TOKENS"`
}

// boundaryBits is the number of bits of keys and values of boundary layers. It may be written as a
// pair of equal numbers, "(8, 8)".
type boundaryBits int

// UnmarshalText implements encoding.TextUnmarshaler.
func (b *boundaryBits) UnmarshalText(text []byte) error {
	inner, pair := strings.CutPrefix(strings.TrimSpace(string(text)), "(")
	if pair {
		inner, pair = strings.CutSuffix(inner, ")")
	}
	keys, values, two := strings.Cut(inner, ",")
	if !two {
		values = keys
	}
	n, err := strconv.Atoi(strings.TrimSpace(keys))
	m, errValues := strconv.Atoi(strings.TrimSpace(values))
	switch {
	case err != nil || errValues != nil || two != pair:
		return fmt.Errorf("expected a whole number or a pair such as \"(8, 8)\", got %q", text)
	case n != m:
		return fmt.Errorf("got %s, but keys and values of boundary layers have the same bits: "+
			"give one number, such as %d", text, max(n, m))
	}
	*b = boundaryBits(n)
	return nil
}

// The method or returns the flags, with the model's settings in place of flags that were not given.
func (f KVFlags) or(m settings.Model) KVFlags {
	return KVFlags{KVFormat: cmp.Or(f.KVFormat, m.KVFormat), KVBits: cmp.Or(f.KVBits, m.KVBits),
		KVGroupSize:      cmp.Or(f.KVGroupSize, m.KVGroupSize),
		KVBoundaryLayers: cmp.Or(f.KVBoundaryLayers, m.KVBoundaryLayers),
		KVBoundaryBits:   cmp.Or(f.KVBoundaryBits, boundaryBits(m.KVBoundaryBits)),
		QuantizedKVStart: cmp.Or(f.QuantizedKVStart, m.KVStartTokens),
		StateFormat:      cmp.Or(f.StateFormat, m.StateFormat),
		MaxKVSize:        cmp.Or(f.MaxKVSize, m.MaxKVTokens),
		SnapKV:           cmp.Or(f.SnapKV, m.SnapKV),
		SnapKVTokens:     cmp.Or(f.SnapKVTokens, m.SnapKVTokens)}
}

func (f KVFlags) apply(o engine.Options) engine.Options {
	return control.EngineOptions(o, f.model())
}

// args returns the flags as arguments for a child process.
func (f *KVFlags) args() []string {
	args := []string{"--kv-format=" + f.KVFormat, "--kv-bits=" + f.KVBits,
		"--kv-group-size=" + f.KVGroupSize, fmt.Sprintf("--kv-boundary-bits=%d", f.KVBoundaryBits),
		fmt.Sprintf("--quantized-kv-start=%d", f.QuantizedKVStart),
		fmt.Sprintf("--max-kv-size=%d", f.MaxKVSize), "--state-format=" + f.StateFormat}
	if f.KVBoundaryLayers != nil {
		args = append(args, fmt.Sprintf("--kv-boundary-layers=%d", *f.KVBoundaryLayers))
	}
	if f.SnapKV != nil {
		args = append(args, fmt.Sprintf("--snapkv=%t", *f.SnapKV))
	}
	if f.SnapKVTokens > 0 {
		args = append(args, fmt.Sprintf("--snapkv-tokens=%d", f.SnapKVTokens))
	}
	return args
}

// roots returns the folders in which models are looked for.
func (f *ModelFlags) roots(s settings.Settings) []string {
	return library.Roots(slices.Concat(f.ModelsDir, s.ModelFolders, []string{s.ImportFolder}))
}

func (f *ModelFlags) library(s *settings.File) *library.Library {
	return library.NewPerModel(f.roots(s.Get()),
		func(id string) engine.Options { return f.options(s.Get(), id) }, engine.Describe)
}

// hostUse is what a command needs of its host, in addition to its flags.
type hostUse struct {
	lastModel string // the model that Start("") means until one has run
	// keep the prefix cache on disk if neither flags nor settings decide
	ssd        bool
	watch      bool                 // watch the model folders
	worker     bool                 // run the model in a separate process
	idleUnload func() time.Duration // see host.Options
	// requests says which models requests load; nil: only those that were unloaded by themselves
	requests func() host.RequestRules
	power    bool // follow battery and temperature
}

// ServiceUse is what a program needs of its Service, in addition to its flags.
type ServiceUse struct {
	InProcess  bool          // run the model in this process instead of a separate one
	IdleUnload time.Duration // idle time after which the model is unloaded; 0: the settings'
	// LastModel is the model that starts when none is named and none has run; "": the demo model.
	LastModel string
	// LoadOnRequest overrides the settings' unless it is nil.
	LoadOnRequest *bool
	RequestWait   time.Duration // how long a request waits for its model; 0: the settings'
}

// ServiceOptions returns the options of a service that runs models with these flags. The caller
// adds the address and other options.
func (f ModelFlags) ServiceOptions(u ServiceUse) service.Options {
	return service.Options{
		NewHost: func(s *settings.File) *host.Host {
			idleUnload := func() time.Duration {
				return cmp.Or(u.IdleUnload, time.Duration(s.Get().IdleUnloadMinutes)*time.Minute)
			}
			return f.newHost(s, hostUse{lastModel: u.LastModel, ssd: true, watch: true, power: true,
				worker: !u.InProcess, idleUnload: idleUnload,
				requests: func() host.RequestRules { return u.requestRules(s.Get()) }})
		},
		NewMover:   f.mover,
		CacheFlags: f.CacheFlags.given(f.NoPrefixes), ModelFlags: f.givenModel(),
		ModelOptions: f.options,
	}
}

// requestRules returns which models requests load.
func (u ServiceUse) requestRules(s settings.Settings) host.RequestRules {
	r := host.RequestRules{Load: s.LoadOnRequest, DefaultModel: s.DefaultModel,
		Aliases: aliases(s),
		Wait:    cmp.Or(u.RequestWait, time.Duration(s.RequestWaitMinutes)*time.Minute)}
	if u.LoadOnRequest != nil {
		r.Load = *u.LoadOnRequest
	}
	return r
}

// aliases returns a function that returns the aliases of the model with an ID.
func aliases(s settings.Settings) func(id string) []string {
	return func(id string) []string { return s.ForModel(id).Aliases }
}

// modelRules returns how long a model stays loaded.
func modelRules(m settings.Model) host.ModelRules {
	r := host.ModelRules{Pinned: m.Pinned}
	if m.IdleUnloadMinutes != nil {
		idle := time.Duration(*m.IdleUnloadMinutes) * time.Minute
		r.IdleUnload = &idle
	}
	return r
}

// newHost returns the host of a command. The caller closes it.
func (f *ModelFlags) newHost(s *settings.File, use hostUse) *host.Host {
	f.warnOfFlags(s.Get())
	for _, sentence := range library.Unreadable(f.ModelsDir) {
		slog.Warn(sentence)
	}
	o := host.Options{Version: version.Version, Library: f.library(s), Meter: &memory.Meter{},
		LastModel: use.lastModel, IdleUnload: use.idleUnload, Requests: use.requests,
		Model:      func(id string) host.ModelRules { return modelRules(s.Get().ForModel(id)) },
		Engine:     func(id string) engine.Options { return f.options(s.Get(), id) },
		Configured: func(id string) bool { return s.Get().Configured(id) },
		Device:     newGate().Device}
	if f.Adapter != "" {
		o.Adapter = &engine.Adapter{Name: filepath.Base(string(f.Adapter)),
			Dir: string(f.Adapter)}
	}
	if o.Requests == nil {
		o.Requests = func() host.RequestRules {
			return host.RequestRules{Aliases: aliases(s.Get())}
		}
	}
	if !f.NoPrefixes {
		o.Cache = f.CacheFlags.ssd(s.Get().Cache, use.ssd)
	}
	o.FreeUnderPressure = func() bool { return s.Get().FreeUnderPressure }
	if use.power {
		o.Power = func() (power.State, power.Policy) {
			now := s.Get()
			return power.Read(), power.Policy{SaveOnBattery: now.SaveOnBattery,
				ThrottleWhenHot: now.ThrottleWhenHot}
		}
	}
	if use.worker {
		o.Device = (&worker.Gate{Dir: gateDir()}).Device
		suspects := worker.NewSuspects()
		o.Open = func(ctx context.Context, src engine.Source, o engine.Options) (host.Engine,
			error) {
			m, err := worker.Open(ctx, src, o, worker.Options{Suspects: suspects})
			if err != nil {
				return nil, err // not a nil *Model inside an Engine
			}
			return m, nil
		}
		o.Check = func(ctx context.Context, o parity.Options, started func(int)) (*parity.Report,
			error) {
			return worker.Check(ctx, o, started, worker.Options{})
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

// load starts a model and waits until it is loaded, with a progress bar on a terminal.
func load(ctx context.Context, h *host.Host, s *settings.File, model string,
	errOut io.Writer) error {
	if err := h.Start(model); err != nil {
		return blameSettings(err, s, model)
	}
	return awaitModel(ctx, h, s, errOut)
}

// awaitModel waits until the model that was started is loaded.
func awaitModel(ctx context.Context, h *host.Host, s *settings.File, errOut io.Writer) error {
	if isTerminal(errOut) {
		finish := showProgress(h, errOut)
		defer finish()
	}
	model := h.State().Engine.Model
	return blameSettings(h.Wait(ctx), s, model)
}

// showProgress draws a progress bar until the returned function is called, which erases it. A model
// that loads within 200 ms gets no bar.
func showProgress(h *host.Host, out io.Writer) (finish func()) {
	const delay = 200 * time.Millisecond
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-stop:
			return
		case <-time.After(delay):
		}
		bar := progressbar.NewOptions(100, progressbar.OptionSetWriter(out),
			progressbar.OptionClearOnFinish(),
			progressbar.OptionSetDescription("Loading "+h.State().Engine.Model),
			progressbar.OptionSetPredictTime(false))
		defer func() { _ = bar.Finish() }()
		_ = bar.RenderBlank() // show 0 % too
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
