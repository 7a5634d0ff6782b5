package engine

import (
	"time"

	"headroom/engine/cache"
	"headroom/engine/models"
	"headroom/engine/runner"
	"headroom/kernels"
)

// MetalKernels are the kernels that the engine's Metal device has run (gpu.Device.Kernels); nil on
// another device.
func (e *Engine) MetalKernels() map[string]bool {
	if d, ok := e.device.(metalDevice); ok {
		return d.Kernels()
	}
	return nil
}

// ReplaceModel lets tests put a model of their own around the engine's, whose caches are new and
// empty: open it with NoPrefixCache, or it would go on from what the old ones held. No request may
// be in flight.
func (e *Engine) ReplaceModel(wrap func(models.Model) models.Model) {
	e.replaceRunner(e.device, wrap)
}

// ReplaceDevice lets tests put a device of their own around the engine's, before its first request.
// No block store may be open.
func (e *Engine) ReplaceDevice(wrap func(kernels.Device) kernels.Device) {
	e.replaceRunner(wrap(e.device), func(m models.Model) models.Model { return m })
}

func (e *Engine) replaceRunner(d kernels.Device, wrap func(models.Model) models.Model) {
	m, err := models.Load(e.weights)
	if err != nil {
		panic(err)
	}
	kv, err := cache.ParseFormat(e.options.kvFormat())
	if err != nil {
		panic(err)
	}
	state, err := cache.ParseStateFormat(e.options.StateFormat)
	if err != nil {
		panic(err)
	}
	o := runner.Options{KV: kv, State: state, Pages: int(e.stats.KVBytes / e.pageSizes.Rest),
		Slots:      e.options.MaxSequences + e.options.KeptStates,
		BatchRows:  e.options.ChunkTokens + e.options.MaxSequences,
		LogitsRows: e.options.MaxSequences}
	e.runner = runner.New(d, wrap(m), o)
}

// CheckMemory returns an error unless every page in use belongs to the prefix tree and every state
// slot is accounted for. No request may be in flight; reads and writes of the block store may.
func (e *Engine) CheckMemory() error {
	answer := make(chan error, 1)
	var look func()
	look = func() {
		if e.blocks.working > 0 {
			go e.post(look) // looks again behind what they post
			return
		}
		answer <- e.sched.CheckIdle()
	}
	e.post(look)
	return <-answer
}

// SlotBytes is the memory that a sequence's slot really has.
func (e *Engine) SlotBytes() (n int64) {
	for _, r := range e.runner.SlotRegions() {
		n += int64(r.PieceBytes)
	}
	return n
}

// OnPause lets tests have f instead of a rest behind a step. No request may be in flight.
func (e *Engine) OnPause(f func(time.Duration)) { e.pause = f }
