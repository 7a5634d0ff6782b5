package host

// State, assembled from host, engine, memory and library. A page may ask for it four times a second
// and must not delay a load or a request. So slow values are cached, and they are read while the
// host is not locked.

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"headroom/app/library"
	"headroom/app/memory"
	"headroom/engine"
)

// State returns the current state.
func (h *Host) State() State {
	reading, err := h.options.Meter.Read()
	if err != nil {
		h.log.Debug("reading the memory failed", "err", err)
	}
	h.mu.Lock()
	running := h.running()
	have := h.have
	s := State{
		Version:  h.options.Version,
		Engine:   h.engineState(running),
		Endpoint: h.endpoint,
		Speed:    Speed{History: append([]Sample{}, h.samples...)},
		Power:    PowerState{h.power.state, h.power.measures.Describe()},
		Requests: []Request{},
	}
	s.Engine.Notice = NewError(h.notice(running))
	lacksCache := h.lacksCache(running)
	h.mu.Unlock()

	var stats engine.Stats
	if have != nil {
		stats = have.engine.Stats()
	}
	if running != nil {
		if stats.Running+stats.Waiting > 0 {
			s.Engine.Status = Busy
		}
		s.Speed.DecodeTokensPerSecond, s.Speed.PrefillTokensPerSecond = stats.DecodeTokensPerSecond,
			stats.PrefillTokensPerSecond
		s.Requests = requests(stats, running.model.ID)
		s.LastFinished = lastFinished(running.engine)
	}
	s.Memory = memory.Split(reading, engineBytes(stats))
	s.Cache = h.cache.stats(engineBytes(stats).KVCached)
	if lacksCache {
		s.Cache.Error = notYetUsed
	}
	s.RoomBytes = s.Memory.HeadroomBytes + engineBytes(stats).Total()
	_, s.ModelsVersion = h.models.changesAfter(math.MaxInt)
	return s
}

// engineState returns the engine part of State. The status of a running model is Ready; State
// changes it to Busy. The caller holds mu.
func (h *Host) engineState(running *target) EngineState {
	switch {
	case running != nil:
		i := running.engine.Info()
		return EngineState{Status: Ready, Model: running.model.ID, Device: i.Device,
			ContextTokens: i.ContextTokens, CacheFormat: i.KVFormat, StateFormat: i.StateFormat}
	case h.failure != nil:
		s := EngineState{Status: Failed, Model: h.want.model.ID, Error: NewError(h.failure)}
		if !h.want.retryAt.IsZero() {
			s.RetryAtUnixMs, s.Error.Fix = h.want.retryAt.UnixMilli(), h.want.nextAttempt()
		}
		return s
	case h.want != nil:
		return EngineState{Status: Loading, Model: h.want.model.ID, Progress: h.want.progress}
	case h.idle.unloaded != nil:
		return EngineState{Status: IdleUnloaded, Model: h.idle.unloaded.ID}
	}
	return EngineState{Status: Stopped}
}

func engineBytes(s engine.Stats) memory.EngineBytes {
	return memory.EngineBytes{Weights: s.WeightsBytes, KVUsed: s.KVUsedBytes,
		KVCached: max(s.KVBytes-s.KVUsedBytes, 0),
		State:    s.StateBytes, Scratch: s.ScratchBytes, Untouched: s.KVUntouchedBytes}
}

func requests(s engine.Stats, model string) []Request {
	list := make([]Request, len(s.Requests))
	for i, r := range s.Requests {
		list[i] = Request{ID: r.ID, Model: model, Phase: r.Phase,
			PromptTokens: r.Usage.PromptTokens, PromptDoneTokens: r.Usage.PromptDoneTokens,
			CachedTokens: r.Usage.CachedTokens, GeneratedTokens: r.Usage.CompletionTokens,
			TokensPerSecond: r.TokensPerSecond, StartedAtUnixMs: r.StartedAtUnixMs}
	}
	slices.SortStableFunc(list,
		func(a, b Request) int { return cmp.Compare(a.StartedAtUnixMs, b.StartedAtUnixMs) })
	return list
}

// modelViews returns the entries of ModelList. A model that runs from a folder outside the library
// comes after the bundled one.
func (h *Host) modelViews(models []library.Model, running *target, roomBytes int64,
	contextTokens int) []Model {
	if running != nil && !slices.ContainsFunc(models,
		func(m library.Model) bool { return m.ID == running.model.ID }) {
		models = slices.Insert(slices.Clone(models), min(1, len(models)), running.model)
	}
	list := make([]Model, len(models))
	for i, m := range models {
		list[i] = modelView(m, roomBytes, contextTokens)
		if running != nil && running.model.ID == m.ID {
			list[i].Loaded, list[i].Fits = true, memory.Yes
		}
		if m.Err != nil {
			list[i].Fits = memory.No
		}
	}
	return list
}

// State has a sample for every sampleInterval of the last historyTime.
const (
	historyTime    = 10 * time.Minute
	sampleInterval = 5 * time.Second
)

// runSampler takes a sample and checks power and idle time every sampleInterval, until ctx ends.
func (h *Host) runSampler(ctx context.Context) {
	tick := time.NewTicker(sampleInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			h.addSample(now)
			h.updatePower()
			h.unloadIdle(now)
			h.reloadForCache(now)
		}
	}
}

func (h *Host) addSample(now time.Time) {
	reading, _ := h.options.Meter.Read()
	s := Sample{AtUnixMs: now.UnixMilli(), MemoryBytes: reading.ProcessBytes}
	h.mu.Lock()
	defer h.mu.Unlock()
	if t := h.running(); t != nil {
		stats := t.engine.Stats()
		s.Decode, s.Prefill = stats.DecodeTokensPerSecond, stats.PrefillTokensPerSecond
	}
	h.samples.add(s)
}

// samples has the samples of the last historyTime, oldest first.
type samples []Sample

func (s *samples) add(sample Sample) {
	const most = int(historyTime / sampleInterval)
	if len(*s) == most {
		*s = slices.Delete(*s, 0, 1)
	}
	*s = append(*s, sample)
}
