package engine

import (
	"headroom/engine/blockstore"
	"headroom/engine/checkpoint"
	"headroom/engine/device"
	"headroom/engine/loop"
	"headroom/engine/plan"
	"headroom/engine/runner"
	"headroom/engine/textproc"
)

// Source is where a model's files are: a folder on disk, or an embedded one.
type Source = checkpoint.Source

// TextProcessor turns text into a model's tokens and back: tokenizer, chat template, recommended
// sampling, end tokens.
type TextProcessor = textproc.Processor

// Values of Options.Device.
const (
	DeviceCPU   = device.CPU
	DeviceMetal = device.Metal
	DeviceSim   = device.Sim
	DeviceNV    = device.NV
)

// What a model is and the memory that it needs, known before it is loaded.
type (
	// Description describes a model, from the headers of its files alone.
	Description = plan.Description
	// Need is the memory that a model needs.
	Need = plan.Need
	// CacheCost is the memory of the caches of one model in one format.
	CacheCost = plan.CacheCost
	// LayerCost is a group of equal layers of a CacheCost.
	LayerCost = plan.LayerCost
)

// A generation: the request, its stream of events, and their figures.
type (
	// Request is one generation: token ids in, events out.
	Request = loop.Request
	// Stream is the events of one request, to be read by one goroutine.
	Stream = loop.Stream
	// Event is one step of a request's life.
	Event = loop.Event
	// EventType says what an Event carries.
	EventType = loop.EventType
	// FinishReason says why a generation ended.
	FinishReason = loop.FinishReason
	// Usage counts the tokens of a request.
	Usage = loop.Usage
	// Timing is how long the parts of a request took.
	Timing = loop.Timing
)

// The events of a request, in this order; see loop.EventType.
const (
	Prefill = loop.Prefill
	Token   = loop.Token
	Done    = loop.Done
)

// The reasons why a generation ends; see loop.FinishReason.
const (
	FinishStop      = loop.FinishStop
	FinishLength    = loop.FinishLength
	FinishCancelled = loop.FinishCancelled
	FinishError     = loop.FinishError
)

// What a running engine reports.
type (
	// Stats is a snapshot of a running engine.
	Stats = loop.Stats
	// RequestStats is one request in flight.
	RequestStats = loop.RequestStats
	// Heartbeat is the progress of an engine, for a watchdog.
	Heartbeat = loop.Heartbeat
	// Finished is a request that has ended: with an answer, cancelled or with an error.
	Finished = loop.Finished
	// History holds the token ids of recent requests; see Options.History.
	History = loop.History
	// CachedPrefix is a prefix cached in memory that is not part of a longer one.
	CachedPrefix = loop.CachedPrefix
	// PassCost is the minimum memory traffic and arithmetic of one forward pass.
	PassCost = runner.Cost
)

// The prefix cache on disk.
type (
	// BlockStore keeps the prefix cache on disk; see engine/blockstore.
	BlockStore = blockstore.Store
	// BlockStoreOptions bound the disk space of a BlockStore.
	BlockStoreOptions = blockstore.Options
	// BlockStoreLimits are the bounds that an open BlockStore can change.
	BlockStoreLimits = blockstore.Limits
	// StoredModel is the key under which a BlockStore keeps a model's blocks.
	StoredModel = blockstore.Model
)
