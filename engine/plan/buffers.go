package plan

// A GPU kernel reads the keys, the values or the states of a layer, and each activation, through
// one buffer. Where a GPU's longest buffer is short, the plan chooses a shorter context, fewer kept
// states and shorter chunks. What the user has requested is not changed but refused.

import (
	"fmt"

	"headroom/engine/cache"
	"headroom/engine/models"
	"headroom/engine/problem"
	"headroom/engine/runner"
	"headroom/kernels"
)

// noLimit is a number of pages or slots that no buffer limits.
const noLimit = 1 << 32

// chooseChunk chooses ChunkTokens and the rows of a pass, and returns the memory for its
// activations. Chunks are halved until each activation fits into a buffer: results do not depend on
// chunks.
func (p *Plan) chooseChunk(m models.Model) (scratch int) {
	for {
		p.Runner.BatchRows = p.ChunkTokens + p.MaxSequences
		scratch, p.largestBytes = runner.ScratchBytes(m, p.Runner)
		if p.LongestBuffer <= 0 || p.largestBytes <= p.LongestBuffer || p.ChunkTokens == 1 {
			return scratch
		}
		p.ChunkTokens /= 2
	}
}

// layers returns the caches of the given numbers of pages and slots, without memory.
func (p *Plan) layers(pages, startPages, slots int) []cache.Layer {
	o := p.Runner.Cache()
	o.Pages, o.StartPages, o.Slots = pages, startPages, slots
	return cache.New(kernels.NewDryRun(), p.Spec.Layers, o)
}

// pagesWithin returns the number of pages after so many start pages that the buffers of every layer
// hold.
func (p *Plan) pagesWithin(start int) int {
	pages := noLimit
	if p.LongestBuffer > 0 {
		for _, l := range p.layers(start, start, 1) {
			if l.KV != nil && l.Ring == nil {
				pages = min(pages, max(0, l.PagesWithin(p.LongestBuffer)))
			}
		}
	}
	return pages
}

// startPagesWithin returns the number of start pages that half of the buffers of every layer hold.
func (p *Plan) startPagesWithin() int {
	pages := noLimit
	if p.LongestBuffer > 0 {
		for _, l := range p.layers(0, 0, 1) {
			if l.KV != nil && l.Ring == nil {
				_, k := l.KV.KPages(true)
				_, v := l.KV.VPages(true)
				pages = min(pages, p.LongestBuffer/2/max(k, v, 1))
			}
		}
	}
	return pages
}

// slotsWithin returns the number of slots that the buffers of every layer hold.
func (p *Plan) slotsWithin() int {
	slots := noLimit
	if p.LongestBuffer > 0 {
		for _, l := range p.layers(0, 0, 1) {
			for _, b := range l.Buffers() {
				if l.KV == nil || l.Ring != nil {
					slots = min(slots, p.LongestBuffer/max(b.Size, 1))
				}
			}
		}
	}
	return slots
}

// CheckBuffers returns a Problem unless the keys, the values and the states of every layer, and
// every activation, fit into buffers of at most LongestBuffer bytes each.
func (p *Plan) CheckBuffers() error {
	longest := p.LongestBuffer
	if longest <= 0 {
		return nil
	}
	if p.largestBytes > longest {
		return tooLong(longest, fmt.Sprintf("a result for %d requests at once needs a buffer of %s",
			p.MaxSequences, problem.Memory(int64(p.largestBytes))))
	}
	for i, l := range p.layers(p.Runner.Pages, p.Runner.StartPages, p.Runner.Slots) {
		for _, b := range l.Buffers() {
			if b.Size <= longest {
				continue
			}
			err := tooLong(longest, fmt.Sprintf("layer %d needs a buffer of %s for a context of "+
				"%d tokens and %d requests at once", i, problem.Memory(int64(b.Size)),
				p.ContextTokens, p.MaxSequences))
			if context := p.contextWithin(); context >= minContextTokens &&
				context < p.ContextTokens {
				err.Fix = fmt.Sprintf("Use a context of at most %d tokens, or a KV cache format "+
					"with fewer bits.", context)
			}
			return err
		}
	}
	return nil
}

func tooLong(longest int, what string) *problem.Problem {
	return problem.New(problem.DoesNotFit, "The model does not fit into the GPU's buffers",
		fmt.Sprintf("%s, a buffer of this GPU has at most %s", what,
			problem.Memory(int64(longest))),
		"Allow fewer requests at once, or run the model on the CPU: --device cpu.")
}

// contextWithin returns the longest context that the buffers hold, a multiple of 1024.
func (p *Plan) contextWithin() int {
	tokens := p.Description.KVStartTokens + p.pagesWithin(p.Pages.Start)*cache.PageTokens
	return tokens / 1024 * 1024
}
