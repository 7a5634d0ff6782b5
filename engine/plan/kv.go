package plan

import (
	"log/slog"

	"github.com/shirou/gopsutil/v3/mem"

	"headroom/engine/cache"
)

// kvLimit returns the maximum number of tokens that attention layers keep of a sequence, or 0 if no
// sequence can exceed it.
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
// A requested context stays as it is, whether it fits or not. Otherwise the context is the model's
// own, or the longest whose pages fit into half of the memory that weights, states and scratch
// leave free. Memory permitting, there are pages for two sequences of that length. Streams seldom
// all grow long at once, and if they do, some are preempted. Start pages are part of the same half.
func (p *Plan) sizeKV() {
	context := p.ContextTokens
	if context <= 0 || context > p.Spec.ContextTokens {
		context = p.Spec.ContextTokens
	}
	half := max(0, p.available()-p.Description.Need.TotalBytes()) / 2
	start := min(p.Description.KVStartTokens, context)
	if start > 0 && p.requestedTokens <= 0 { // the start alone may not fit
		if room := int(half/p.PageSizes.Start) * cache.PageTokens; room < start {
			context = min(context, max(room, minContextTokens))
			start = min(start, context)
		}
	}
	p.sizeStarts(start, half)
	affordable := 1 << 40 // tokens after the start
	if p.PageSizes.Rest > 0 {
		free := max(half-p.Pages.Bytes(p.PageSizes), 0)
		affordable = int(free/p.PageSizes.Rest) * cache.PageTokens
	}
	if p.requestedTokens <= 0 {
		context = min(context, max(start+affordable, min(minContextTokens, context)))
	}
	p.ContextTokens = context
	rest := max(0, context-start)
	tokens := max(rest, min(rest*min(p.MaxSequences, 2), affordable))
	if p.PageSizes.Rest == 0 { // pages without memory cost nothing
		tokens = context * p.MaxSequences
	}
	p.Pages.Rest = pagesFor(tokens)
}

// sizeStarts chooses the number of start pages. They are for at least one sequence, and at most for
// all running sequences and as many cached ones. They use at most a quarter of the bytes, unless
// one sequence needs more.
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
	p.Pages.Start = perSequence * int(max(1, min(int64(sequences), affordable)))
}

// chooseKeptStates chooses the number of slots, of slotBytes each, in addition to those of running
// sequences.
func (p *Plan) chooseKeptStates(slotBytes int64) {
	switch {
	case slotBytes == 0 || p.NoPrefixCache:
		p.KeptStates = 0
	case p.KeptStates <= 0:
		// A sixteenth of the memory for at most 32 states, more where they are small.
		memory := p.available()
		small := min(memory/256/slotBytes, 256)
		p.KeptStates = int(max(4, min(memory/16/slotBytes, 32), small))
	}
}

// available returns the bytes that the model may use: Options.AvailableBytes, or the system's free
// memory less a reserve for other apps.
func (p *Plan) available() int64 {
	if p.AvailableBytes > 0 {
		return p.AvailableBytes
	}
	v, err := mem.VirtualMemory()
	if err != nil {
		slog.Warn("the system does not report free memory; nothing limits the model", "err", err)
		return 1 << 62
	}
	return int64(v.Available) - min(1<<30, int64(v.Total)/16)
}

func pagesFor(tokens int) int { return (tokens + cache.PageTokens - 1) / cache.PageTokens }
