package engine

import (
	"headroom/engine/blockstore"
	"headroom/engine/checkpoint"
	"headroom/engine/device"
	"headroom/engine/draft"
	"headroom/engine/loop"
	"headroom/engine/plan"
	"headroom/engine/prefix"
	"headroom/engine/runner"
	"headroom/engine/sched"
	"headroom/engine/textproc"
	"headroom/engine/tuning"
	"headroom/kernels/tune"
)

// With the aliases below, callers of an Engine need not import the packages that define the types
// of its methods.

// Source is the location of a model's files: a folder on disk, or an embedded one.
type Source = checkpoint.Source

// TextProcessor converts between text and a model's tokens. It has the tokenizer, the chat
// template, the recommended sampling parameters and the end tokens.
type TextProcessor = textproc.Processor

// The values of Options.Device.
const (
	DeviceCPU   = device.CPU
	DeviceMetal = device.Metal
	DeviceSim   = device.Sim
	DeviceNV    = device.NV
)

// Properties of a model that are known before it is loaded.
type (
	// Description describes a model. It is made from the headers of the model's files alone.
	Description = plan.Description
	// Need is the memory that a model needs, by purpose.
	Need = plan.Need
	// CacheCost is the cache memory of one model in one KV format.
	CacheCost = plan.CacheCost
	// LayerCost is the cache memory of a group of equal layers.
	LayerCost = plan.LayerCost
)

// What was measured of a GPU with a model; see Tune.
type (
	// Tuning is where it is kept.
	Tuning = tuning.Options
	// TuneOptions limit the time of the measurements.
	TuneOptions = tune.Options
)

// A request and the events that answer it.
type (
	// Request asks for one generation: token ids in, events out.
	Request = loop.Request
	// Stream delivers the events of one request to one goroutine.
	Stream = loop.Stream
	// Event reports the progress of a request, one of its tokens, or its end.
	Event = loop.Event
	// Score is the log-probability of a prompt token.
	Score = loop.Score
	// EventType tells which of these an Event reports.
	EventType = loop.EventType
	// Growth is the memory that a model may take beyond what is promised to it.
	Growth = sched.Growth
	// FinishReason tells why a generation ended.
	FinishReason = loop.FinishReason
	// Usage counts the tokens of a request.
	Usage = loop.Usage
	// NoDrafts is why an answer had no drafts.
	NoDrafts = draft.Why
	// Timing holds the durations of the phases of a request.
	Timing = loop.Timing
)

// The events of a request, in this order; see loop.EventType.
const (
	Prefill  = loop.Prefill
	Scored   = loop.Scored
	Token    = loop.Token
	Done     = loop.Done
	Embedded = loop.Embedded
)

// The reasons why a generation ends; see loop.FinishReason.
const (
	FinishStop      = loop.FinishStop
	FinishLength    = loop.FinishLength
	FinishCancelled = loop.FinishCancelled
	FinishError     = loop.FinishError
)

// Figures and reports of a running engine.
type (
	// Stats is a snapshot of the engine's requests, token counts, speeds and memory.
	Stats = loop.Stats
	// RequestStats is the part of Stats about one request in flight.
	RequestStats = loop.RequestStats
	// Heartbeat shows a watchdog whether the engine makes progress.
	Heartbeat = loop.Heartbeat
	// Drafts are what a pass verifies; see Options.Draft.
	Drafts = loop.Drafts
	// Finished describes a request that has ended, whether answered, cancelled or failed.
	Finished = loop.Finished
	// History holds the token ids of recent requests; see Options.History.
	History = loop.History
	// CachedPrefix is a prefix cached in memory that is not part of a longer one.
	CachedPrefix = loop.CachedPrefix
	// Held is how much of a prompt is cached.
	Held = loop.Held
	// HeldQuestion asks how much of a prompt is cached.
	HeldQuestion = loop.HeldQuestion
	// PrefixHash stands for the beginning of a prompt; see prefix.Hash.
	PrefixHash = prefix.Hash
	// PrefixEnd is the end of a message in a prompt; see prefix.End.
	PrefixEnd = prefix.End
	// PassCost is the minimum memory traffic and arithmetic of one forward pass.
	PassCost = runner.Cost
)

// The prefix cache on disk.
type (
	// BlockStore keeps the prefix cache on disk; see engine/blockstore.
	BlockStore = blockstore.Store
	// BlockStoreOptions limit the disk space of a BlockStore.
	BlockStoreOptions = blockstore.Options
	// BlockStoreLimits are the limits that can change while a BlockStore is open.
	BlockStoreLimits = blockstore.Limits
	// StoredModel is the key under which a BlockStore keeps a model's blocks.
	StoredModel = blockstore.Model
)

// NotQuantized is the Quantization of a model that is not packed.
const NotQuantized = plan.NotQuantized
