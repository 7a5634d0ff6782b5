package host

// Room for a model beside those that are loaded. If there is too little, the least recently used
// model goes that has no requests and is not pinned, then the next one, until the new model fits.
// For the model of a request, nobody's request is ended: it waits until the others have answered
// theirs. For the model of a person, busy models go too, as a last resort: the last click wins.
//
// Two models that do not fit together and are asked for in turn must not spend the time with
// loading. So after a model was loaded for requests, no model is unloaded for others until
// stayFactor times the duration of that load has passed. Requests for the other model wait
// meanwhile, and are then answered together. After this time, new requests for the model that must
// go wait, too, behind those of the model that comes. Otherwise a model that always has requests
// would never go.
//
// A model that waits for memory does not hold up those behind it which fit into what is free, if it
// still fits beside them. A model that only requests of low priority wait for comes last, and the
// requests of others do not wait for its sake: it is loaded when models without requests have gone.
//
// The size of a model's KV cache is chosen when it is loaded, by the memory that is free then. A
// model that is alone takes up to half of what its weights leave. So a model that has to go for
// another one may have had more than it needed. The other one is therefore loaded such that both
// fit, if a context of sharedContext tokens for each leaves room for both.

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"headroom/app/library"
	"headroom/app/memory"
	"headroom/engine/problem"
)

const (
	// stayFactor bounds the share of the time that goes into loading to a fifth.
	stayFactor = 4
	// sharedContext is the context, in tokens, for which a model gets room before it is loaded
	// beside others. A model of an agent is of little use with less.
	sharedContext = 32 << 10
)

// needs returns what loading an instance needs; nil if that cannot be found out.
func (h *Host) needs(i *instance) *loadNeed {
	h.mu.Lock()
	n, m := i.need, i.model
	h.mu.Unlock()
	if n == nil {
		var err error
		if n, err = h.loadNeedOf(m); err != nil {
			return nil // loading it says why
		}
		h.mu.Lock()
		i.need = n
		h.mu.Unlock()
	}
	return n
}

// occupant is a loaded model that may have to go for another one.
type occupant struct {
	*instance
	bytes    int64
	pinned   bool
	busy     bool
	stays    bool // it, or one beside it, was loaded for requests just now
	stayEnds time.Time
}

// verdict is what to do for a model that is to be loaded.
type verdict struct {
	ready  bool        // load it
	evict  *instance   // else unload this one; nil: none
	refuse bool        // else do not load it: it would not fit
	drain  []*instance // else wait, and let these have no new requests
}

// decide returns what to do for a model with this need while roomBytes are free. others are the
// loaded models. urgent means that a person waits for it.
func decide(n loadNeed, roomBytes int64, others []occupant, urgent bool) verdict {
	goal := n.shared
	others = slices.DeleteFunc(slices.Clone(others), func(o occupant) bool { return o.pinned })
	most := roomBytes
	for _, o := range others {
		most += o.bytes
	}
	if goal > most {
		goal = most // there is no room for more, even if all others go
	}
	switch {
	case goal < n.least:
		return verdict{refuse: true}
	case roomBytes >= goal:
		return verdict{ready: true}
	}
	slices.SortStableFunc(others, func(a, b occupant) int {
		if urgent {
			return cmp.Or(order(a.busy, b.busy), a.usedAt.Compare(b.usedAt))
		}
		return cmp.Or(order(!a.draining, !b.draining), order(a.stays, b.stays),
			order(a.busy, b.busy), a.stayEnds.Compare(b.stayEnds), a.usedAt.Compare(b.usedAt))
	})
	if urgent {
		return verdict{evict: others[0].instance}
	}
	// Models go only once enough of them can, so that none goes in vain.
	now := roomBytes
	var first *instance
	for _, o := range others {
		if !o.busy && !o.stays {
			now += o.bytes
			if first == nil || o.usedAt.Before(first.usedAt) {
				first = o.instance
			}
		}
	}
	if now >= goal {
		return verdict{evict: first}
	}
	var v verdict
	now = roomBytes
	for _, o := range others {
		if now >= goal {
			break
		}
		now += o.bytes
		if o.busy && !o.stays {
			v.drain = append(v.drain, o.instance)
		}
	}
	return v
}

// beside reports whether a model with this need can be loaded while others, which come before it,
// wait: it fits into the roomBytes that are free, and once the loaded models have gone, each of
// those that wait has room beside it. It then has to leave keptBytes free.
func beside(n loadNeed, roomBytes int64, loaded []occupant, first []*target) (keptBytes int64,
	ok bool) {
	most := roomBytes
	for _, o := range loaded {
		if !o.pinned {
			most += o.bytes
		}
	}
	for _, t := range first {
		if t.of.need == nil || most-n.shared < t.of.need.least {
			return 0, false
		}
	}
	return roomBytes - n.shared, n.shared <= roomBytes
}

// order sorts false before true.
func order(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// makeRoom prepares the load of an instance's wanted model. If ready is true, the model can be
// loaded, and must leave keptBytes free. Otherwise another model is now to be unloaded, or the load
// has failed, or has to wait. first are the targets that wait and come before this one.
func (h *Host) makeRoom(i *instance, want *target, first []*target) (keptBytes int64, ready bool) {
	h.mu.Lock()
	loaded, evicted := h.others(i)
	byPerson, waited := want.byPerson, want.waits
	h.mu.Unlock()
	if len(loaded) == 0 && (byPerson || len(evicted) == 0) {
		return 0, true // the engine itself refuses a model that does not fit
	}
	n := h.needs(i)
	if n == nil {
		return 0, true
	}
	for _, o := range evicted {
		h.needs(o)
	}
	reading, err := h.options.Meter.Read()
	if !waited {
		reading, err = h.options.Meter.Fresh() // a model may have been unloaded just now
	}
	if err != nil {
		h.log.Debug("reading the memory failed", "err", err)
		return 0, true
	}
	used := h.usedBytes()
	room := reading.HeadroomBytes(used, memory.EngineBytes{})
	rules := h.rulesOfLoaded()

	h.mu.Lock()
	defer h.mu.Unlock()
	if i.want != want {
		return 0, false
	}
	urgent := want.byPerson && !want.reload
	now := h.options.now()
	var ends time.Time // when all models that were loaded for requests have stayed long enough
	for _, o := range loaded {
		if t := o.running(); t != nil && t.stayEnds().After(ends) {
			ends = t.stayEnds()
		}
	}
	others := make([]occupant, 0, len(loaded))
	var unloaded memory.EngineBytes
	for _, o := range loaded {
		if t := o.running(); t != nil {
			bytes := engineBytes(t.engine.Stats())
			others = append(others, occupant{instance: o, busy: o.busy(), bytes: bytes.Total(),
				pinned: o.pinned(rules[o.model.ID]),
				stays:  now.Before(ends), stayEnds: ends})
			if !others[len(others)-1].pinned {
				unloaded = unloaded.Add(bytes)
			}
		}
	}
	most := reading.HeadroomBytes(used, unloaded)
	if len(first) > 0 {
		if keptBytes, want.beside = beside(*n, room, others, first); !want.beside {
			want.waits = true
		}
		return keptBytes, want.beside
	}
	v := decide(*n, room, others, urgent)
	if n.least > most { // the reserve grows when the others go, so they would go in vain
		v = verdict{refuse: true}
	}
	if want.patient() {
		v.drain = nil
	}
	h.setDraining(v.drain)
	want.waits = false
	switch {
	case v.ready:
		if !urgent {
			keptBytes = kept(room, *n, evicted)
		}
		return keptBytes, true
	case v.evict != nil:
		h.log.Info("unloading a model, because another one needs its memory", "model",
			v.evict.model.ID, "for", i.model.ID)
		h.setUnloaded(v.evict, forRoom)
	case v.refuse:
		h.loadFailed(want, doesNotFit(i.model, *n, room, most, others))
		h.subscribers.notify()
	default:
		want.waits = true
	}
	return 0, false
}

// others returns the instances besides one that are loaded, and those that went for another model
// and may return, the last used first. The caller holds mu.
func (h *Host) others(one *instance) (loaded, evicted []*instance) {
	for _, i := range h.instances {
		switch {
		case i == one:
		case i.have != nil:
			loaded = append(loaded, i)
		case i.unloaded == forRoom || i.want != nil && i.want.was == forRoom && i.failure == nil:
			evicted = append(evicted, i)
		}
	}
	slices.SortStableFunc(evicted,
		func(a, b *instance) int { return b.usedAt.Compare(a.usedAt) })
	return loaded, evicted
}

// kept returns how much memory a model leaves free for those that went for another one, if each of
// them has room for its shared need. The caller holds mu.
func kept(roomBytes int64, n loadNeed, evicted []*instance) (bytes int64) {
	for _, e := range evicted {
		if e.need != nil && roomBytes-bytes-e.need.shared >= n.shared {
			bytes += e.need.shared
		}
	}
	return bytes
}

// stayEnds returns until when no model is unloaded for requests of others, because this one was
// loaded. One that was loaded beside models that wait does not make them wait for longer.
func (t *target) stayEnds() time.Time {
	if t.byPerson || t.beside {
		return t.loadedAt
	}
	return t.loadedAt.Add(stayFactor * t.loadTime)
}

// setDraining makes new requests of exactly these models wait. The caller holds mu.
func (h *Host) setDraining(list []*instance) {
	for _, i := range h.instances {
		draining := slices.Contains(list, i)
		if i.draining && !draining && i.waiting > 0 {
			h.subscribers.notify()
		}
		i.draining = draining
	}
}

// doesNotFit returns the Problem of a model that would not fit, even if all others that may be
// unloaded were.
func doesNotFit(m library.Model, n loadNeed, roomBytes, most int64, others []occupant) error {
	pinned := []string{}
	for _, o := range others {
		if o.pinned {
			pinned = append(pinned, o.model.ID+" holds "+memory.Text(o.bytes))
		}
	}
	why := fmt.Sprintf("it needs at least %s, %s is available for a model",
		memory.Text(n.least), memory.Text(roomBytes))
	if most > roomBytes {
		why += fmt.Sprintf(", and %s after all other models are unloaded", memory.Text(most))
	}
	fix := "Close other apps, or pick a model that is smaller or quantized to fewer bits."
	if len(pinned) > 0 {
		why += "; pinned models stay: " + strings.Join(pinned, ", ")
		fix = "Unpin or stop a pinned model, or pick a smaller one."
	}
	return problem.New(problem.DoesNotFit, "The model "+m.ID+" does not fit", why, fix)
}
