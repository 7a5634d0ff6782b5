package plan

import (
	"log/slog"
	"slices"

	"github.com/shirou/gopsutil/v3/mem"

	"headroom/engine/cache"
	"headroom/engine/prefix"
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

// sizeKV chooses the context and the number of KV pages; see Description.ContextWithin.
//
// If memory allows, there are pages for two sequences of that length. It is rare that more streams
// become that long at once. If they do, some are preempted. With SnapKV, each of them also has
// pages for the selected positions. Only the pages of one sequence are needed; the others are a
// part of GrowthBytes.
func (p *Plan) sizeKV() {
	d := &p.Description
	available := p.available()
	context := d.contextWithin(available, p.pagesWithin)
	half, start := d.halfOf(available), min(d.KVStartTokens, context)
	p.Pages.Start = d.startPages(start, half)
	affordable := min(d.affordable(half, p.Pages.Start),
		p.pagesWithin(p.Pages.Start)*cache.PageTokens)
	p.ContextTokens, p.SelectTokens = context, d.selected(context)
	rest := max(0, context-start) + pagesFor(p.SelectTokens)*cache.PageTokens
	tokens := max(rest, min(rest*min(p.MaxSequences, 2), affordable))
	if p.Spec.Vectors != nil {
		tokens = max(rest, min(p.vectorPageTokens(rest), affordable))
	}
	if p.PageSizes.Rest == 0 { // every layer has a ring, so pages need no memory
		tokens = context * p.MaxSequences
	}
	p.Pages.Rest = pagesFor(tokens)
}

// mostStarts returns for how many sequences there are start pages at most.
func (p *Plan) mostStarts() int {
	tokens := p.KV.Start(p.Spec.Layers)
	if tokens == 0 {
		return 0
	}
	sequences := 2 * p.MaxSequences
	if p.NoPrefixCache {
		sequences = p.MaxSequences
	}
	return min(sequences, p.startPagesWithin()/pagesFor(tokens))
}

// Guaranteed returns the pages of one conversation of the whole context, which Need covers. No
// request needs more.
func (p *Plan) Guaranteed() prefix.Amount {
	start := min(p.Description.KVStartTokens, p.ContextTokens)
	return prefix.Amount{Start: pagesFor(start),
		Rest: pagesFor(p.ContextTokens-start) + pagesFor(p.SelectTokens)}
}

// restTokens is the length of the conversation whose pages are promised to a model at rest: that of
// a usual chat.
const restTokens = 4096

// AtRest returns the pages that are promised to the model while nothing runs. Requests are granted
// more when they are admitted, up to Guaranteed; see engine/sched.
func (p *Plan) AtRest() prefix.Amount {
	tokens := min(p.ContextTokens, restTokens)
	start := min(p.Description.KVStartTokens, tokens)
	return prefix.Amount{Start: pagesFor(start),
		Rest: pagesFor(tokens-start) + pagesFor(p.Description.selected(tokens))}
}

// GuaranteedStates returns how many of the KeptStates Need covers.
func (p *Plan) GuaranteedStates() int {
	if p.requestedStates > 0 {
		return p.KeptStates
	}
	return min(p.KeptStates, guaranteedStates)
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
		p.KeptStates = int(max(guaranteedStates, min(memory/16/slotBytes, 32), small))
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

// Available returns Options.AvailableBytes, or else what the system has now, minus a reserve.
func (p *Plan) Available() int64 { return p.available() }

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
