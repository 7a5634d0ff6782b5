package engine

// The plain data of the engine's interface: what goes in when a model is opened, what is known
// before it is loaded (Description, Need), and what is measured while it runs (Stats). Sizes are in
// bytes, lengths in tokens.

import (
	"time"

	"headroom/engine/cache"
	"headroom/metal"
)

// Options choose how a model is run. The zero value is right for most.
type Options struct {
	// DeviceCPU, DeviceMetal, DeviceSim or DeviceNV; "": Metal where there is one, or the CPU
	Device  string
	Threads int // that compute; 0: one per core
	// exact activations on the CPU, several times slower; see kernels/cpu.Options
	Float32Activations bool
	// OpenMetal opens the GPU of DeviceMetal; nil: the Mac's. What it opens is the engine's to
	// close.
	OpenMetal func() (metal.Device, error)
	// The KV cache's format, as cache.FormatOptions has it: "f16", "bf16", "f32", "affine", "q8_0"
	// or "q4_0", and for affine the bits and group sizes, "(8, 4)" for K and V or one number for
	// both, with at least KVBoundaryBits in the first and last KVBoundaryLayers attention layers
	// (0: the defaults; negative: no such layers).
	KVFormat, KVBits, KVGroupSize    string
	KVBoundaryLayers, KVBoundaryBits int
	// KVStartTokens first tokens of every sequence keep their keys and values as float16, for good,
	// in layers without a window; rounded up to a multiple of 512. 0: none.
	KVStartTokens int
	// MaxKVTokens bounds what an attention layer keeps of a sequence: the first 4 positions and the
	// last ones, so many in all, in memory of fixed size. The sequence may be longer. 0:
	// everything; otherwise at least 32.
	MaxKVTokens int
	// of recurrent states: "f32", "bf16" or "int8"; "": f32. See cache.StateFormat
	StateFormat    string
	ContextTokens  int   // longest sequence; 0: what the model was trained for, or what fits
	MaxSequences   int   // that run at once; 0: 8
	ChunkTokens    int   // most prompt tokens of one pass; 0: 512
	QueueRequests  int   // that may wait; 0: 64
	AvailableBytes int64 // memory the model may take; 0: ask the system

	NoPrefixCache bool // read every prompt from its beginning, even if it has been read before
	// states and rings kept for prompts to go on from; 0: as many as a sixteenth of the memory
	// holds, 4 to 32, and more small ones
	KeptStates int
	// most memory that keys and values of ended requests take; 0: all that running ones leave
	HotCacheBytes   int64
	PromptCacheSize int // most ended conversations remembered in memory; 0: no bound
	// BlockStore keeps the prefix cache on disk, over restarts; nil: in memory alone. It stays the
	// caller's, and must outlive the engine.
	BlockStore *BlockStore
	ModelName  string // what people call the model, for the block store's lists

	PreferPrefill bool // read waiting prompts before running streams go on
	// MaxStall is how long a pass may take that reads a prompt beside running streams, as far as
	// measuring the last ones can tell; 0: 250 ms. PreferPrefill overrules it.
	MaxStall time.Duration

	// Progress is called while loading with the share done, in [0, 1]. May be nil. It must not
	// block.
	Progress func(done float64)
	// Times counts what operators take, on the CPU alone; nil: nobody asks.
	Times *OperatorTimes
	// History is what was computed before this engine, and by it; see Recent. nil: one of its own.
	History *History
}

func (o *Options) kvFormat() cache.FormatOptions {
	return cache.FormatOptions{Name: o.KVFormat, Bits: o.KVBits, GroupSize: o.KVGroupSize,
		BoundaryLayers: o.KVBoundaryLayers, BoundaryBits: o.KVBoundaryBits,
		StartTokens: o.KVStartTokens}
}

// Need is what a model takes, in bytes, before anything is loaded.
type Need struct {
	WeightsBytes int64 // of the checkpoint's files that will be mapped
	KVBytes      int64 // pages for ContextTokens
	StateBytes   int64 // recurrent state and rings of MaxSequences and KeptStates
	ScratchBytes int64 // activations of the largest pass
}

// TotalBytes is the sum.
func (n Need) TotalBytes() int64 {
	return n.WeightsBytes + n.KVBytes + n.StateBytes +
		n.ScratchBytes
}

// Description is what a model folder holds, read from its headers alone.
type Description struct {
	Architecture    string // config.json's model_type
	Quantization    string // of most weights, as "4-bit, group 64" or "bfloat16"
	SizeBytes       int64
	Parameters      int64 // in all of its files, packed ones as what they stand for
	ContextTokens   int   // the longest the model was trained for
	KVBytesPerToken int64 // of all layers that keep every token, in the asked format
	// KVStartTokens first tokens take KVStartBytesPerToken instead; both 0 if none do.
	KVStartTokens        int
	KVStartBytesPerToken int64
	// what one sequence has besides: recurrent state, and the rings of layers with a window
	StateBytesPerSeq int64
	Need             Need // with the asked options
	PlannedTokens    int  // the context that those options, or free memory, leave
	HasChatTemplate  bool
}

// KVBytes is what so many tokens of one sequence take in the layers that keep every token.
func (d *Description) KVBytes(tokens int) int64 {
	first := min(tokens, d.KVStartTokens)
	return int64(first)*d.KVStartBytesPerToken + int64(tokens-first)*d.KVBytesPerToken
}

// Info is a running model's description for people.
type Info struct {
	Description
	Device      string // as "CPU, AVX-512 VNNI, 2 threads"
	StateFormat string // of recurrent states: "f32", "bf16", "int8", or "none" in a model without
	// as "K8 g64 + V4 g32, first and last 2 layers K8 V8; 5 of 6 layers keep 512 tokens"
	KVFormat string
}

// Stats is a snapshot of a running engine.
type Stats struct {
	Running, Waiting int
	Requests         []RequestStats
	// Totals since the engine opened.
	PromptTokens, CachedTokens, GeneratedTokens, FinishedRequests int64
	// requests that gave their KV pages back and were computed again
	Preemptions int64
	// Speeds over the last two seconds or so; 0 when idle.
	PrefillTokensPerSecond, DecodeTokensPerSecond float64
	// Memory, measured: what the engine has allocated.
	WeightsBytes, KVBytes, KVUsedBytes, StateBytes, ScratchBytes int64
	// KVUntouchedBytes of KVBytes have never been written: reserved, but not resident.
	KVUntouchedBytes int64
}

// RequestStats is one request in flight.
type RequestStats struct {
	ID              string
	Phase           string // "waiting", "prefill" or "decode"
	Usage           Usage
	MaxTokens       int     // the longest that the answer may become
	TokensPerSecond float64 // of decoding so far
	StartedAtUnixMs int64
}
