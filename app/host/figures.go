package host

// The figures of memory that menu, list, details, what-if panel, notifications and refusals show,
// each from one function: what a model needs (needOf), and what is available for one (readMemory).
// What is free, what is available and what fits is arithmetic of app/memory. What a model needs is
// that of engine/plan. So a model has the same figure everywhere, and one that is said to fit is
// not refused.

import (
	"headroom/app/library"
	"headroom/app/memory"
	"headroom/engine"
)

// NeedParts is what a model needs and what that covers: its weights, the results of one step, the
// states of all requests that may run at once, and one conversation of ContextTokens. More is not
// needed: the caches of further conversations grow while there is memory.
type NeedParts struct {
	ContextTokens int   `json:"contextTokens"`
	WeightsBytes  int64 `json:"weightsBytes"`
	KVBytes       int64 `json:"kvBytes"` // of one conversation of ContextTokens
	StateBytes    int64 `json:"stateBytes"`
	ScratchBytes  int64 `json:"scratchBytes"`
}

func newNeedParts(n engine.Need, contextTokens int) NeedParts {
	return NeedParts{ContextTokens: contextTokens, WeightsBytes: n.WeightsBytes, KVBytes: n.KVBytes,
		StateBytes: n.StateBytes, ScratchBytes: n.ScratchBytes}
}

// TotalBytes returns the sum.
func (n NeedParts) TotalBytes() int64 {
	return n.WeightsBytes + n.KVBytes + n.StateBytes + n.ScratchBytes
}

// needOf returns what a model needs for a context of the given length, capped at the length it was
// trained for. 0 means the context with which it runs, or would be loaded into roomBytes. A drafter
// that does not fit beside its model is left out, as loading leaves it out.
func needOf(d engine.Description, running *target, roomBytes int64, contextTokens int) NeedParts {
	plain := d.Plain
	if contextTokens == 0 && running != nil {
		contextTokens, plain = running.engine.Info().ContextTokens, nil
	}
	for {
		tokens := min(contextTokens, d.ContextTokens)
		if contextTokens == 0 {
			tokens = d.ContextWithin(roomBytes)
		}
		n := newNeedParts(d.NeedAt(tokens), tokens)
		if plain == nil || n.TotalBytes() <= roomBytes {
			return n
		}
		d, plain = *plain, nil
	}
}

// EstimateNeed returns what a model needs in all if it is loaded into roomBytes, for programs
// without a Host.
func EstimateNeed(d engine.Description, roomBytes int64) int64 {
	return needOf(d, nil, roomBytes, 0).TotalBytes()
}

// loadNeed is the memory that a model needs for being loaded beside others.
type loadNeed struct {
	least int64 // with the shortest context
	// shared is enough for a context of sharedContext tokens, or of the model's length if that is
	// shorter or was set.
	shared int64
}

// loadNeedOf returns what loading a model needs. The error is a Problem.
func (h *Host) loadNeedOf(m library.Model) (*loadNeed, error) {
	d, err := h.options.Library.DescribeWith(m, h.adaptedOptions(m.ID))
	if err != nil {
		return nil, err
	}
	if d.Plain != nil {
		d = *d.Plain
	}
	n := &loadNeed{least: needOf(d, nil, 0, 0).TotalBytes()}
	n.shared = n.least
	if d.RequestedTokens == 0 {
		// The plan gives one conversation half of the memory that is left.
		own := d.NeedAt(min(d.ContextTokens, sharedContext))
		n.shared = max(n.least, own.TotalBytes()+own.KVBytes)
	}
	return n, nil
}

// readMemory returns a recent reading, the memory of all engines, and what is available for a model
// once all others that are not pinned are unloaded.
func (h *Host) readMemory() (r memory.Reading, used memory.EngineBytes, roomBytes int64) {
	r, err := h.options.Meter.Read()
	if err != nil {
		h.log.Debug("reading the memory failed", "err", err)
	}
	rules := h.rulesOfLoaded()
	h.mu.Lock()
	defer h.mu.Unlock()
	var unloaded memory.EngineBytes
	for _, i := range h.instances {
		if i.have == nil {
			continue
		}
		bytes := engineBytes(i.have.engine.Stats())
		used = used.Add(bytes)
		if !i.pinned(rules[i.model.ID]) {
			unloaded = unloaded.Add(bytes)
		}
	}
	return r, used, r.HeadroomBytes(used, unloaded)
}

// limitGrowth tells each loaded engine how much memory it may take until the next call. A model
// that is alone may take all that one conversation needs, whatever is free: its load would have
// been refused if that had not been available. Several share what is free. Their caches get equal
// parts of what is then available for a model, and nothing while memory is short. What a model
// needs that is being loaded is left alone. The caller must not hold mu.
func (h *Host) limitGrowth() {
	reading, err := h.options.Meter.Fresh()
	engines := h.loadedEngines()
	if err != nil || len(engines) == 0 {
		return
	}
	used := h.usedBytes()
	loading, opening := h.openingBytes()
	free, room := reading.FreeBytes(used)-loading,
		reading.HeadroomBytes(used, memory.EngineBytes{})-loading
	if reading.Pressure.Level.Short() {
		room = 0
	}
	lacks := make([]int64, len(engines))
	for i, e := range engines {
		lacks[i] = e.Stats().ConversationBytes
	}
	alone := len(engines) == 1 && !opening
	for i, g := range shares(lacks, free, room, alone) {
		if e, ok := engines[i].(interface{ SetGrowth(engine.Growth) }); ok {
			e.SetGrowth(g)
		}
	}
}

// shares divides memory among models that lack so many bytes for a conversation: conversations get
// freeBytes, and caches what these leave of roomBytes. A model that is alone gets all it lacks.
func shares(lackBytes []int64, freeBytes, roomBytes int64, alone bool) []engine.Growth {
	lack, list := int64(0), make([]engine.Growth, len(lackBytes))
	for _, bytes := range lackBytes {
		lack += bytes
	}
	part := 1.0
	if !alone && lack > 0 {
		part = min(max(float64(freeBytes)/float64(lack), 0), 1)
	}
	for i, bytes := range lackBytes {
		list[i].ConversationBytes = int64(part * float64(bytes))
		roomBytes -= list[i].ConversationBytes
	}
	for i := range list {
		list[i].CacheBytes = max(roomBytes, 0) / int64(len(list))
	}
	return list
}

// openingBytes returns what the models that are being loaded need, and whether there are any.
func (h *Host) openingBytes() (bytes int64, opening bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, i := range h.instances {
		if i.opening {
			opening = true
			if i.need != nil {
				bytes += i.need.shared
			}
		}
	}
	return bytes, opening
}
