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
	reading, used, room := h.readMemory()
	rules := h.rulesOfLoaded()
	h.mu.Lock()
	s := State{
		Version:  h.options.Version,
		Engines:  []EngineState{},
		Endpoint: h.endpoint,
		Speed:    Speed{History: append([]Sample{}, h.samples...)},
		Power:    PowerState{h.power.state, h.power.measures.Describe()},
		Pressure: PressureState{reading.Pressure, []UnloadAdvice{}, h.pressure.freedBytes},
		Requests: []Request{}, Reuse: h.reuse,
		Checking: h.checks.running, ChecksVersion: h.checks.version,
	}
	if reading.Pressure.Level.Short() {
		s.Pressure.Advice = h.advice(rules)
	}
	front := h.front()
	s.Engine = h.engineState(front)
	lacksCache := false
	for _, i := range h.inOrder() {
		e := h.engineState(i)
		t := i.running()
		if t != nil {
			stats := t.engine.Stats()
			e.addStats(stats, i)
			s.Reuse.add(stats)
			s.Speed.DecodeTokensPerSecond += stats.DecodeTokensPerSecond
			s.Speed.PrefillTokensPerSecond += stats.PrefillTokensPerSecond
			s.Requests = append(s.Requests, requests(stats, i.model.ID)...)
			lacksCache = lacksCache || h.lacksCache(t)
		}
		e.Requests += i.waiting
		e.Pinned = t != nil && i.pinned(rules[i.model.ID])
		if i == front {
			s.Engine = e
		}
		s.Engines = append(s.Engines, e)
	}
	h.mu.Unlock()
	slices.SortStableFunc(s.Requests,
		func(a, b Request) int { return cmp.Compare(a.StartedAtUnixMs, b.StartedAtUnixMs) })
	targets := h.runningTargets()
	s.LastFinished = lastFinished(targets)
	s.addNoDrafts(targets, time.Now())
	s.Memory = memory.Split(reading, used)
	s.Cache = h.cache.stats(used.KVCached)
	if lacksCache {
		s.Cache.Error = notYetUsed
	}
	s.RoomBytes = room
	_, s.ModelsVersion = h.models.changesAfter(math.MaxInt)
	return s
}

// RoomBytes returns how much memory a model may take that is loaded now.
func (h *Host) RoomBytes() int64 {
	_, _, room := h.readMemory()
	return room
}

// inOrder returns the instances that nobody has stopped: that in front first, then by last use. The
// caller holds mu.
func (h *Host) inOrder() []*instance {
	front := h.front()
	list := slices.DeleteFunc(slices.Clone(h.instances),
		func(i *instance) bool { return i.want == nil && i.unloaded == notUnloaded })
	slices.SortStableFunc(list, func(a, b *instance) int {
		return cmp.Or(order(a != front, b != front), b.usedAt.Compare(a.usedAt))
	})
	return list
}

// engineState returns the state of an instance; nil stands for no model. The status of a running
// model is Ready; addStats changes it to Busy. The caller holds mu.
func (h *Host) engineState(i *instance) EngineState {
	if i == nil {
		return EngineState{Status: Stopped, Notice: NewError(h.notice(nil))}
	}
	s := EngineState{Status: Stopped, Model: i.model.ID, Notice: NewError(h.notice(i)),
		Requested: i.want != nil && !i.want.byPerson, LastUsedAtUnixMs: unixMs(i.usedAt)}
	switch t := i.want; {
	case i.running() != nil:
		info := t.engine.Info()
		s.Status, s.Device, s.ContextTokens = Ready, info.Device, info.ContextTokens
		s.CacheFormat, s.StateFormat = info.KVFormat, info.StateFormat
		s.Drafter, s.DraftModel = info.Drafter, info.DraftModel
		s.DraftModelUnused, s.Lookups = info.DraftModelUnused, info.Lookups
	case i.failure != nil:
		s.Status, s.Error = Failed, NewError(i.failure)
		if !t.retryAt.IsZero() {
			s.RetryAtUnixMs, s.Error.Fix = t.retryAt.UnixMilli(), t.nextAttempt()
		}
	case t != nil:
		s.Status, s.Progress = Loading, t.progress
	case i.unloaded != notUnloaded:
		s.Status = IdleUnloaded
		s.Requested = i != h.chosen
	}
	return s
}

// addStats adds the figures of a running engine.
func (s *EngineState) addStats(stats engine.Stats, i *instance) {
	s.Requests = max(stats.Running+stats.Waiting, i.uses)
	if stats.Running+stats.Waiting > 0 {
		s.Status = Busy
	}
	bytes := engineBytes(stats)
	s.MemoryBytes, s.ReservedBytes = bytes.Used(), bytes.Reserved
	s.GeneratedTokens, s.DraftTokens, s.AcceptedTokens = stats.GeneratedTokens,
		stats.DraftTokens, stats.AcceptedTokens
	s.DecodeTokensPerSecond = stats.DecodeTokensPerSecond
	s.Speedup, s.SavedSeconds = stats.Speedup(), stats.SavedSeconds
}

func engineBytes(s engine.Stats) memory.EngineBytes {
	return memory.EngineBytes{Weights: s.WeightsBytes, KVUsed: s.KVUsedBytes,
		KVCached: max(s.KVBytes-s.KVUsedBytes, 0),
		State:    s.StateBytes, Scratch: s.ScratchBytes, Reserved: s.ReservedBytes}
}

func requests(s engine.Stats, model string) []Request {
	list := make([]Request, len(s.Requests))
	for i, r := range s.Requests {
		list[i] = Request{ID: r.ID, Title: r.Title, Client: r.Client, Key: r.Key, Model: model,
			Phase: r.Phase, LacksBytes: r.LacksBytes,
			PromptTokens: r.Usage.PromptTokens, PromptDoneTokens: r.Usage.PromptDoneTokens,
			CachedTokens: r.Usage.CachedTokens, GeneratedTokens: r.Usage.CompletionTokens,
			TokensPerSecond: r.TokensPerSecond, StartedAtUnixMs: r.StartedAtUnixMs}
	}
	return list
}

// withRunning returns the models with those that run from a folder outside the library, which come
// after the bundled one.
func withRunning(models []library.Model, running []*target) []library.Model {
	for _, t := range running {
		if !slices.ContainsFunc(models,
			func(m library.Model) bool { return m.ID == t.model.ID }) {
			models = slices.Insert(slices.Clone(models), min(1, len(models)), t.model)
		}
	}
	return models
}

// modelViews returns the entries of ModelList.
func modelViews(models []library.Model, running []*target, roomBytes int64,
	contextTokens int) []Model {
	list := make([]Model, len(models))
	for i, m := range models {
		n := slices.IndexFunc(running, func(t *target) bool { return t.model.ID == m.ID })
		if n < 0 {
			list[i] = modelView(m, nil, roomBytes, contextTokens)
			continue
		}
		list[i] = modelView(m, running[n], roomBytes, contextTokens)
		list[i].Loaded, list[i].Fits = true, memory.Yes
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

// runSampler takes a sample and checks pressure, power, idle time and aliases every sampleInterval,
// until ctx ends.
func (h *Host) runSampler(ctx context.Context) {
	tick := time.NewTicker(sampleInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			h.addSample(now)
			h.updatePressure(now)
			h.limitGrowth()
			h.updatePower()
			h.boundCheck()
			h.unloadIdle(now)
			h.reloadForCache(now)
			h.noteAliases()
		}
	}
}

func (h *Host) addSample(now time.Time) {
	reading, _ := h.options.Meter.Read()
	s := Sample{AtUnixMs: now.UnixMilli(), MemoryBytes: reading.ProcessBytes}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, i := range h.instances {
		if t := i.running(); t != nil {
			stats := t.engine.Stats()
			s.Decode += stats.DecodeTokensPerSecond
			s.Prefill += stats.PrefillTokensPerSecond
		}
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
