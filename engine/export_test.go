package engine

import (
	"time"

	"headroom/engine/models"
	"headroom/engine/runner"
	"headroom/kernels"
)

// MetalKernels returns the kernels that the engine's Metal device has run (gpu.Device.Kernels). On
// another device it returns nil.
func (e *Engine) MetalKernels() map[string]bool {
	if d := e.device.GPU(); d != nil {
		return d.Kernels()
	}
	return nil
}

// ReplaceModel wraps the engine's model. Its caches are new and empty, so open the engine with
// NoPrefixCache. No request may be in flight.
func (e *Engine) ReplaceModel(wrap func(models.Model) models.Model) {
	e.replaceRunner(e.kernels, wrap)
}

// ReplaceDevice wraps the engine's device, before its first request. No block store may be open.
func (e *Engine) ReplaceDevice(wrap func(kernels.Device) kernels.Device) {
	e.replaceRunner(wrap(e.kernels), func(m models.Model) models.Model { return m })
}

func (e *Engine) replaceRunner(d kernels.Device, wrap func(models.Model) models.Model) {
	m, err := e.plan.Load(Source{}, e.weights, e.draft.weights)
	if err != nil {
		panic(err)
	}
	e.runner = runner.New(d, wrap(m), e.plan.Runner)
	e.loop.ReplaceRunner(e.runner)
}

// CheckMemory returns an error unless every page in use belongs to the prefix tree and every state
// slot is accounted for. No request may be in flight; the block store may be reading and writing.
func (e *Engine) CheckMemory() error { return e.loop.CheckIdle() }

// DraftModelRows returns how many rows the draft model has computed.
func (e *Engine) DraftModelRows() int { return e.loop.DraftModelRows() }

// Stops returns how many steps of the background were stopped.
func (e *Engine) Stops() int { return e.loop.Stops() }

// SlotBytes returns the size of the memory allocated for one slot.
func (e *Engine) SlotBytes() (n int64) {
	for _, r := range e.runner.SlotRegions() {
		n += int64(r.PieceBytes)
	}
	return n
}

// LackingWait makes requests wait so long for memory. No request may be in flight.
func (e *Engine) LackingWait(d time.Duration) { e.loop.LackingWait(d) }

// OnPause makes the engine call f instead of idling. No request may be in flight.
func (e *Engine) OnPause(f func(time.Duration)) { e.loop.OnPause(f) }

// OneByOne computes the forced tokens of answers of a given form one after the other. No request
// may be in flight.
func (e *Engine) OneByOne() { e.loop.OneByOne() }

// AlwaysDraft makes the engine verify what f proposes after the given tokens, in place of its own
// drafts. No request may be in flight.
func (e *Engine) AlwaysDraft(f func(tokens []int32) []int32) { e.loop.AlwaysDraft(f) }

// FreeRows makes every pass count as equally long. No request may be in flight.
func (e *Engine) FreeRows() { e.loop.FreeRows() }

// DraftDepth makes the model's block draft so many tokens for each pass. No request may be in
// flight.
func (e *Engine) DraftDepth(tokens int) { e.loop.DraftDepth(tokens) }

// Shortlist makes the model's block choose from some tokens. No request may be in flight.
func (e *Engine) Shortlist(first, last int) { e.loop.Shortlist(first, last) }

// WatchBlocks calls f with each block that is drafted, and the tokens before it. No request may be
// in flight.
func (e *Engine) WatchBlocks(f func(known, block []int32)) { e.loop.WatchBlocks(f) }
