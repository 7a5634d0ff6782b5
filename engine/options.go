package engine

import (
	"cmp"
	"fmt"
	"time"

	"headroom/engine/cache"
	"headroom/engine/draft"
	"headroom/engine/plan"
	"headroom/engine/problem"
	"headroom/engine/sched"
	"headroom/kernels"
	"headroom/metal"
)

// Options configure an engine. The zero value suits most models.
type Options struct {
	// Device is DeviceCPU, DeviceMetal, DeviceSim or DeviceNV; "": Metal on a Mac with a GPU, else
	// the CPU.
	Device  string
	Threads int // compute threads; 0: one per performance core
	// Float32Activations stops the CPU from quantizing activations to 8 bits. This is several times
	// slower; see kernels/cpu.Options.
	Float32Activations bool
	// Tuning is where the engine finds and keeps what was measured of a GPU with this model; see
	// Tune. The zero value keeps nothing.
	Tuning Tuning
	// OpenMetal opens the GPU of DeviceMetal; nil: opens the Mac's GPU. The engine closes it.
	OpenMetal func() (metal.Device, error)

	// KVFormat is the format of the KV cache: "f16", "bf16", "f32", "affine", "q8_0" or "q4_0".
	// KVBits and KVGroupSize apply to "affine". Each is one number, or a pair for K and V such as
	// "(8, 4)". See cache.FormatOptions.
	KVFormat, KVBits, KVGroupSize string
	// The first and the last KVBoundaryLayers attention layers use at least KVBoundaryBits bits; 0:
	// the defaults, negative: no such layers.
	KVBoundaryLayers, KVBoundaryBits int
	// The first KVStartTokens tokens of every sequence stay in float16 in layers without a sliding
	// window. The number is rounded up to a multiple of 512. 0: none.
	KVStartTokens int
	// MaxKVTokens is the maximum number of tokens of a sequence that an attention layer keeps: the
	// first 4 and the most recent ones. The sequence itself may be longer. The minimum is 32. 0:
	// all tokens are kept.
	MaxKVTokens int
	// SnapKV reads only a part of a long prompt while it decodes. The last queries of a prompt of
	// at least SnapKVFrom tokens select SnapKVTokens positions for each layer and KV head.
	// The tokens of the answer attend to these, to the first and to the most recent ones. The whole
	// prompt stays in the cache, so the next turn is computed as without SnapKV. It works on the
	// CPU, and not with MaxKVTokens.
	SnapKV       bool
	SnapKVTokens int // 0: 4,096
	SnapKVFrom   int // 0: 49,152
	// StateFormat is the format of recurrent states: "f32", "bf16" or "int8"; "": f32. See
	// cache.StateFormat.
	StateFormat string

	ContextTokens  int   // longest sequence; 0: as long as the model and memory allow
	MaxSequences   int   // sequences that run at once; 0: 8
	ChunkTokens    int   // maximum number of prompt tokens in one pass; 0: 512, for vectors 1,024
	QueueRequests  int   // requests that may wait; 0: 64
	AvailableBytes int64 // memory that the model may use; 0: ask the system

	// Adapter is used by every request that names none; nil: the model alone. A model that it does
	// not fit is refused.
	Adapter *Adapter

	NoPrefixCache bool // compute every prompt from its beginning
	// KeptStates is the number of recurrent states and rings that are cached for later prompts. 0:
	// as many as fit into a sixteenth of the memory, from 4 to 32, or up to 256 if they are small.
	KeptStates int
	// MemoryCacheBytes limits the keys and values of ended requests in memory; 0: all memory that
	// running requests do not need.
	MemoryCacheBytes int64
	PromptCacheSize  int // maximum number of ended conversations cached in memory; 0: no limit
	// BlockStore keeps the prefix cache on disk, so that it survives restarts; nil: memory only.
	// The caller closes it, after the engine.
	BlockStore *BlockStore
	ModelName  string // the model's name in the block store's lists
	// PromptCaches makes SavePrompt and LoadPrompt possible without a BlockStore: the weights are
	// read once more while they are loaded, to know what computed a prompt cache.
	PromptCaches bool
	// PreloadBytes limits the memory of the conversations that are read from the BlockStore at the
	// start, before a request needs them; at most a quarter of the KV cache. 0: none are read.
	PreloadBytes int64

	// Speculate is how tokens are decoded ahead: SpeculateOff; SpeculateLookup, which proposes what
	// followed the same tokens; SpeculateMTP, with the model's own block or its assistant;
	// SpeculateDraft, with the DraftModel, and SpeculateDFlash, if that is a DFlash drafter;
	// SpeculateAuto, whichever is faster. Each proposes tokens only where that has been measured to
	// be faster than plain decoding. "": off. No answer depends on it.
	Speculate string
	// DraftModel is a smaller model with the same vocabulary, or a DFlash drafter for this model,
	// which drafts in place of the model's own block if Speculate is SpeculateAuto, SpeculateDraft
	// or SpeculateDFlash. Or it is an assistant of Gemma 4, or the folder of a block that drafts,
	// which becomes the model's own, if Speculate is SpeculateAuto or SpeculateMTP. nil: none.
	DraftModel *DraftModel
	// Draft is for benchmarks and checks, which know the answer or want a wrong one verified. It
	// decides what a pass verifies after the given tokens of a sequence, whatever it costs. If it
	// returns nil, or is nil, the engine decides. It must not block, nor keep the tokens. It needs
	// SpeculateAuto, and like that changes no answer. If running is true, a GPU computes the token
	// after the given ones, and the next pass begins before that token is known, without drafts.
	// Then only the number of drafts counts: if there are any, that pass is awaited.
	Draft func(tokens []int32, running bool) *Drafts

	PreferPrefill bool // compute waiting prompts before running streams continue
	// MaxPrefillStall limits the duration of a pass that computes prompt tokens while other
	// requests decode. The number of prompt tokens in the pass is chosen from the speed of earlier
	// passes. 0: 250 ms. PreferPrefill overrides it.
	MaxPrefillStall time.Duration

	// Progress is called while the model loads, with the share done in [0, 1]. It must not block.
	// It may be nil.
	Progress func(done float64)
	// Times measures the time of each operator, on the CPU only; nil: nothing is measured. Call its
	// Start and Stop only while no request runs.
	Times *kernels.OperatorTimes
	// History holds the tokens that earlier engines have computed, and this engine adds to it. The
	// cache-miss reports of Recent use it. nil: an empty History.
	History *History
}

// The values of Options.Speculate.
const (
	SpeculateAuto   = draft.WayAuto
	SpeculateOff    = draft.WayOff
	SpeculateLookup = draft.WayLookup
	SpeculateMTP    = draft.WayMTP
	SpeculateDraft  = draft.WayDraft
	SpeculateDFlash = draft.WayDFlash
)

// CheckSpeculate returns an error unless value is one of these.
func CheckSpeculate(value string) error { return draft.CheckWay(value) }

// draftTokens returns how many proposed tokens a pass verifies.
func (o Options) draftTokens() int {
	if o.Speculate == "" || o.Speculate == SpeculateOff {
		return 0
	}
	return 2 * draft.MaxTokens
}

// Check returns a Problem if an option that planning depends on is valid for no model.
func (o Options) Check() error {
	if o.Speculate != "" {
		if err := CheckSpeculate(o.Speculate); err != nil {
			return problem.Wrap(problem.BadRequest, err, "There is no such way to decode ahead",
				"Leave it out to get auto.")
		}
	}
	if err := o.checkSnapKV(); err != nil {
		return err
	}
	if d := o.DraftModel; d != nil {
		if err := CheckDraftTokens(d.Tokens); err != nil {
			return problem.Wrap(problem.BadRequest, err, "A draft model cannot draft as far", "")
		}
	}
	return o.planning().Check()
}

// checkSnapKV returns a Problem if SnapKV is requested and cannot be used.
func (o *Options) checkSnapKV() error {
	const what = "SnapKV cannot be used like this"
	switch {
	case o.SnapKVTokens < 0:
		return problem.New(problem.BadRequest, what,
			fmt.Sprintf("it would select %d positions", o.SnapKVTokens), "Use 0 for the default.")
	case o.SnapKV && o.MaxKVTokens > 0:
		return problem.New(problem.BadRequest, what,
			fmt.Sprintf("the KV cache is limited to %d tokens", o.MaxKVTokens),
			"Use either SnapKV or the limit.")
	case o.SnapKV && o.Device != "" && o.Device != DeviceCPU:
		return problem.New(problem.BadRequest, "SnapKV runs on the CPU only",
			fmt.Sprintf("the device is %s", o.Device), "Turn SnapKV off, or use the CPU.")
	}
	return nil
}

// selection returns which prompts have a selection.
func (o *Options) selection() (s sched.SelectOptions) {
	if o.SnapKV {
		s.Tokens, s.From = cmp.Or(o.SnapKVTokens, sched.SelectTokens),
			cmp.Or(o.SnapKVFrom, sched.SelectFrom)
	}
	return s
}

// planning returns the options that a plan depends on.
func (o *Options) planning() plan.Options {
	var drafts *plan.DraftModel
	if d := o.draftModel(); d != nil {
		drafts = &plan.DraftModel{Source: d.Source, Required: d.Required,
			NotFound: d.NotFound, Way: o.Speculate}
	}
	adapterBytes := int64(0)
	if o.Adapter != nil {
		adapterBytes = AdapterBytes(o.Adapter.Dir)
	}
	return plan.Options{
		DraftModel: drafts, AdapterBytes: adapterBytes,
		KVFormat: cache.FormatOptions{Name: o.KVFormat, Bits: o.KVBits, GroupSize: o.KVGroupSize,
			BoundaryLayers: o.KVBoundaryLayers, BoundaryBits: o.KVBoundaryBits,
			StartTokens: o.KVStartTokens},
		StateFormat: o.StateFormat, MaxKVTokens: o.MaxKVTokens, ContextTokens: o.ContextTokens,
		MaxSequences: o.MaxSequences, ChunkTokens: o.ChunkTokens, KeptStates: o.KeptStates,
		NoPrefixCache: o.NoPrefixCache, AvailableBytes: o.AvailableBytes,
		DraftTokens: o.draftTokens(), NoDrafter: o.Speculate == SpeculateLookup,
		SelectTokens: o.selection().Tokens, SelectFrom: o.selection().From,
	}
}

// Info describes a running model for display.
type Info struct {
	Description
	Device      string // for example "CPU, AVX-512 VNNI, 2 threads"
	StateFormat string // "f32", "bf16" or "int8"; "none" for a model without recurrent states
	// KVFormat is, for example, "K8 g64 + V4 g32, first and last 2 layers K8 V8; 5 of 6 layers keep
	// 512 tokens".
	KVFormat string
	// Drafter is the way to decode ahead of what drafts for the model: SpeculateMTP,
	// SpeculateDraft, SpeculateDFlash, or "" if nothing does.
	Drafter string
	// DraftModel is the name of Options.DraftModel if that drafts; "" if it does not.
	DraftModel string
	// Lookups says that tokens are looked up to decode ahead.
	Lookups bool
	// Tuned is the number of values of the GPU's kernels that were measured and are used; see Tune.
	Tuned int
}
