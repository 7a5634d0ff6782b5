package plan

import (
	"log/slog"
	"slices"

	"github.com/shirou/gopsutil/v3/mem"

	"headroom/engine/cache"
)

// kvLimit returns MaxKVTokens, or 0 if no sequence can be longer than that.
func (p *Plan) kvLimit() int {
	longest := p.Spec.ContextTokens
	if p.ContextTokens > 0 {
		longest = min(longest, p.ContextTokens)
	}
	if p.MaxKVTokens >= longest {
		return 0
	}
	return p.MaxKVTokens
}

// sizeKV chooses the context and the number of KV pages.
//
// A requested context is not changed, even if it does not fit. Otherwise the context is the longest
// one that the model supports and whose pages fit into half of the memory that weights, states and
// scratch do not need. Start pages are in the same half.
//
// If memory allows, there are pages for two sequences of that length. It is rare that more streams
// become that long at once. If they do, some are preempted. With SnapKV, each of them also has
// pages for the selected positions.
func (p *Plan) sizeKV() {
	context := p.ContextTokens
	if context <= 0 || context > p.Spec.ContextTokens {
		context = p.Spec.ContextTokens
	}
	half := max(0, p.available()-p.Description.Need.TotalBytes()) / 2
	start := min(p.Description.KVStartTokens, context)
	if start > 0 && p.requestedTokens <= 0 { // even the start may not fit
		if room := int(half/p.PageSizes.Start) * cache.PageTokens; room < start {
			context = min(context, max(room, minContextTokens))
			start = min(start, context)
		}
	}
	p.sizeStarts(start, half)
	affordable := 1 << 40 // tokens after the start
	if perPage := p.PageSizes.Rest + p.draftPageBytes(); perPage > 0 {
		free := max(half-p.Pages.Bytes(p.PageSizes), 0)
		affordable = int(free/perPage) * cache.PageTokens
	}
	affordable = min(affordable, p.pagesWithin()*cache.PageTokens)
	if p.requestedTokens <= 0 {
		p.checkSelection(min(context, start+affordable))
		context = min(context,
			max(start+affordable-p.SelectTokens, min(minContextTokens, context)))
	}
	p.ContextTokens = context
	p.checkSelection(context)
	selected := pagesFor(p.SelectTokens) * cache.PageTokens
	rest := max(0, context-start) + selected
	tokens := max(rest, min(rest*min(p.MaxSequences, 2), affordable))
	if p.Spec.Vectors != nil {
		tokens = max(rest, min(p.vectorPageTokens(rest), affordable))
	}
	if p.PageSizes.Rest == 0 { // every layer has a ring, so pages need no memory
		tokens = context * p.MaxSequences
	}
	p.Pages.Rest = pagesFor(tokens)
}

// checkSelection sets SelectTokens to 0 if no prompt in that context can have a selection, or no
// layer attends to all positions, so that no memory is kept for it.
func (p *Plan) checkSelection(context int) {
	if context < p.SelectFrom || context <= p.SelectTokens || p.PageSizes.Rest == 0 {
		p.SelectTokens = 0
	}
}

// sizeStarts chooses the number of start pages. There are enough for all running sequences and for
// as many cached ones, if that takes no more than a quarter of bytes and half of a buffer. There
// are always enough for one sequence. tokens is the length of the start.
func (p *Plan) sizeStarts(tokens int, bytes int64) {
	if tokens == 0 {
		return
	}
	perSequence := pagesFor(tokens)
	sequences := 2 * p.MaxSequences
	if p.NoPrefixCache {
		sequences = p.MaxSequences
	}
	affordable := bytes / 4 / (int64(perSequence) * p.PageSizes.Start)
	sequences = min(sequences, p.startPagesWithin()/perSequence)
	p.Pages.Start = perSequence * int(max(1, min(int64(sequences), affordable)))
}

// chooseKeptStates chooses KeptStates, the number of slots in addition to those of running
// sequences. A slot takes slotBytes.
func (p *Plan) chooseKeptStates(slotBytes int64) {
	switch {
	case slotBytes == 0 || p.NoPrefixCache:
		p.KeptStates = 0
	case p.KeptStates <= 0:
		// At most 32 states in a sixteenth of the memory, or at most 256 in a 256th of it.
		memory := p.available()
		small := min(memory/256/slotBytes, 256)
		p.KeptStates = int(max(4, min(memory/16/slotBytes, 32), small))
		p.KeptStates = max(0, min(p.KeptStates, p.slotsWithin()-p.MaxSequences))
	}
}

// chooseDraftTokens sets DraftTokens to 0 for a model that has no drafts: one that computes
// vectors, and one with recurrent states and rings, because a sequence cannot change the slot that
// has its ring.
func (p *Plan) chooseDraftTokens() {
	rings := slices.ContainsFunc(p.Spec.Layers,
		func(l cache.LayerSpec) bool { return l.Window > 0 })
	if p.Spec.Vectors != nil || rings && p.HasStates() {
		p.DraftTokens = 0
	}
}

// HasStates reports whether the model has recurrent states.
func (p *Plan) HasStates() bool { return cache.SlotBytes(p.Spec.Layers, p.State) > 0 }

// chooseDraftSlots chooses DraftSlots, the number of slots for the states before drafts, which only
// recurrent models need: half as many as are kept for prompts, in a 64th of the memory.
func (p *Plan) chooseDraftSlots(slotBytes int64) {
	if p.DraftTokens == 0 || !p.HasStates() {
		return
	}
	p.DraftSlots = min(p.DraftTokens, max(2, p.KeptStates/2), int(p.available()/64/slotBytes))
	p.DraftSlots = max(0, min(p.DraftSlots, p.slotsWithin()-p.MaxSequences-p.KeptStates))
}

// available returns the bytes that the model may use. It is Options.AvailableBytes, or else the
// system's available memory minus a reserve for other apps.
func (p *Plan) available() int64 {
	if p.AvailableBytes > 0 {
		return p.AvailableBytes
	}
	v, err := mem.VirtualMemory()
	if err != nil {
		slog.Warn("the available memory is unknown, so the model's size is not checked", "err", err)
		return 1 << 62
	}
	return int64(v.Available) - min(1<<30, int64(v.Total)/16)
}

func pagesFor(tokens int) int { return (tokens + cache.PageTokens - 1) / cache.PageTokens }
