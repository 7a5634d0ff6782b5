package plan

// The figures of a model: what it needs, and the longest context that fits. The plan and everything
// that shows a figure ask these functions, so the same settings have the same figure everywhere.
// They follow from a Description by arithmetic, without reading the model again.

import "headroom/engine/cache"

// guaranteedStates is how many states of cached prefixes a model with recurrent states or rings can
// keep whatever happens. Further states are a part of GrowthBytes.
const guaranteedStates = 4

// Need is the memory that a model needs, by purpose. It is known before the model is loaded. It
// covers the weights, the activations of the largest pass, the states of all sequences that may run
// at once, and the keys and values of one conversation of the whole context. A load is refused if
// that is not available then.
//
// Of the keys and values, a model at rest is promised those of a short conversation (Plan.AtRest).
// A request is promised its own when it is admitted, out of what is free then (engine/sched), and
// it waits if that is too little. So other models may use what no request uses.
//
// The figures include a draft model: its weights in WeightsBytes, its activations in ScratchBytes,
// and its pages, states and rings in StateBytes. They include the adapter with which the model is
// started, in WeightsBytes, and none that requests name.
type Need struct {
	// WeightsBytes counts the tensors in the mapped files that kernels read, and the copies of all
	// others. The system can drop the pages of a tensor that has been copied, because a GPU gets
	// only those of the tensors that it reads.
	WeightsBytes int64
	KVBytes      int64 // KV pages of one conversation
	// StateBytes counts recurrent states and rings, of running sequences and of cached prefixes,
	// and the hidden states that an assistant reads.
	StateBytes   int64
	ScratchBytes int64 // activations of the largest pass
	// GrowthBytes is how much the caches may grow beyond all of this: pages and states of further
	// conversations and of cached prefixes. They take memory when they are first used, and only
	// while there is some (engine.Engine.SetGrowth). It is not needed, so TotalBytes leaves it out.
	GrowthBytes int64
}

// TotalBytes returns what the model needs: the sum of all fields but GrowthBytes.
func (n Need) TotalBytes() int64 {
	return n.WeightsBytes + n.KVBytes + n.StateBytes + n.ScratchBytes
}

// WithAdapter returns d for a model that is started with an adapter of the given size.
func (d Description) WithAdapter(bytes int64) Description {
	d.Need.WeightsBytes += bytes
	if d.Plain != nil && bytes > 0 {
		plain := d.Plain.WithAdapter(bytes)
		d.Plain = &plain
	}
	return d
}

// KVBytes returns the memory of a sequence of the given length in the layers that keep every token.
func (d *Description) KVBytes(tokens int) int64 {
	first := min(tokens, d.KVStartTokens)
	return int64(first)*d.KVStartBytesPerToken + int64(tokens-first)*d.KVBytesPerToken
}

// NeedAt returns what the model needs with a context of the given length, at most the one that it
// was trained for. A longer context never needs less. GrowthBytes, which depends on the available
// memory, is 0.
func (d *Description) NeedAt(contextTokens int) Need {
	tokens := min(contextTokens, d.ContextTokens)
	n := d.Need
	n.GrowthBytes = 0
	n.KVBytes = d.conversationBytes(tokens)
	n.StateBytes += d.draftBytes(tokens) - d.draftBytes(d.PlannedTokens)
	return n
}

// NeedWithin returns the context that the model is loaded with if it may use the given memory, and
// what it then needs.
func (d *Description) NeedWithin(availableBytes int64) (n Need, contextTokens int) {
	contextTokens = d.ContextWithin(availableBytes)
	return d.NeedAt(contextTokens), contextTokens
}

// LargestContext returns the longest context with which the model needs no more than the given
// memory, a multiple of the page size or the longest context that it was trained for; 0: it does
// not fit.
func (d *Description) LargestContext(availableBytes int64) int {
	least, most := 0, pagesFor(d.ContextTokens) // pages that fit, and at most fit
	if n := d.NeedAt(0); n.TotalBytes() > availableBytes {
		return 0
	}
	for least < most {
		middle := (least + most + 1) / 2
		if n := d.NeedAt(middle * cache.PageTokens); n.TotalBytes() <= availableBytes {
			least = middle
		} else {
			most = middle - 1
		}
	}
	return min(least*cache.PageTokens, d.ContextTokens)
}

// ContextWithin returns the context that the model is loaded with if it may use the given memory. A
// requested one is not changed, even if it does not fit. Otherwise it is the longest one that the
// model supports and whose pages fit into half of the memory that weights, states and scratch do
// not need: the rest is for further conversations and for other apps.
func (d *Description) ContextWithin(availableBytes int64) int {
	return d.contextWithin(availableBytes, nil)
}

// contextWithin is ContextWithin for a device with short buffers. pagesWithin returns the number of
// pages that they hold after so many start pages; nil: there is no limit.
func (d *Description) contextWithin(availableBytes int64, pagesWithin func(start int) int) int {
	if r := d.RequestedTokens; r > 0 {
		return min(r, d.ContextTokens)
	}
	context, start, half := d.ContextTokens, d.KVStartTokens, d.halfOf(availableBytes)
	if start = min(start, context); start > 0 { // even the start may not fit
		room := int(half/(d.KVStartBytesPerToken*cache.PageTokens)) * cache.PageTokens
		if room < start {
			context = min(context, max(room, minContextTokens))
			start = min(start, context)
		}
	}
	startPages := d.startPages(start, half)
	affordable := d.affordable(half, startPages)
	if pagesWithin != nil {
		affordable = min(affordable, pagesWithin(startPages)*cache.PageTokens)
	}
	selected := d.selected(min(context, start+affordable))
	return min(context, max(start+affordable-selected, min(minContextTokens, context)))
}

// halfOf returns half of the memory that weights, states and scratch leave.
func (d *Description) halfOf(availableBytes int64) int64 {
	n := d.NeedAt(0)
	return max(0, availableBytes-n.TotalBytes()) / 2
}

// affordable returns how many tokens after the start pages fit into half of the memory.
func (d *Description) affordable(half int64, startPages int) int {
	perToken := d.KVBytesPerToken + d.DraftKVBytesPerToken
	if perToken == 0 {
		return 1 << 40
	}
	free := half - int64(startPages)*cache.PageTokens*d.KVStartBytesPerToken
	return int(max(free, 0)/(perToken*cache.PageTokens)) * cache.PageTokens
}

// startPages returns the number of start pages. There are enough for all running sequences and for
// as many cached ones, if that takes no more than a quarter of the given bytes and half of a
// buffer. There are always enough for one sequence. tokens is the length of the start.
func (d *Description) startPages(tokens int, bytes int64) int {
	if tokens == 0 {
		return 0
	}
	perSequence := pagesFor(tokens)
	affordable := bytes / 4 / (int64(perSequence) * cache.PageTokens * d.KVStartBytesPerToken)
	return perSequence * int(max(1, min(int64(d.MostStarts), affordable)))
}

// selected returns how many positions SnapKV selects of a prompt in such a context. It is 0 if no
// prompt can have a selection, or no layer attends to all positions.
func (d *Description) selected(contextTokens int) int {
	if contextTokens < d.SelectFrom || contextTokens <= d.SelectTokens || d.KVBytesPerToken == 0 {
		return 0
	}
	return d.SelectTokens
}

// conversationBytes returns the memory of the KV pages of one conversation of that length.
func (d *Description) conversationBytes(tokens int) int64 {
	start := min(tokens, d.KVStartTokens)
	pages := pagesFor(max(0, tokens-start)) + pagesFor(d.selected(tokens))
	return int64(pagesFor(start)*cache.PageTokens)*d.KVStartBytesPerToken +
		int64(pages*cache.PageTokens)*d.KVBytesPerToken
}

// draftBytes returns the memory of the pages of the draft model for one conversation.
func (d *Description) draftBytes(tokens int) int64 {
	tokens = min(tokens, d.DraftContextTokens)
	return int64(pagesFor(tokens)*cache.PageTokens) * d.DraftKVBytesPerToken
}
