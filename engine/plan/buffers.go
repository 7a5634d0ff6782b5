package plan

import (
	"fmt"

	"headroom/engine/cache"
	"headroom/engine/problem"
	"headroom/kernels"
)

// CheckBuffers returns a Problem unless the keys, the values and the states of every layer fit into
// buffers of at most longest bytes each. A GPU kernel reads each of them through one buffer.
func (p *Plan) CheckBuffers(longest int) error {
	context := p.ContextTokens // the longest one that fits
	var tooLong *problem.Problem
	for i, l := range cache.New(kernels.NewDryRun(), p.Spec.Layers, p.Runner.Cache()) {
		for _, b := range l.Buffers() {
			if b.Size <= longest || tooLong != nil {
				continue
			}
			tooLong = problem.New(problem.DoesNotFit,
				"The model's cache does not fit into the GPU's buffers",
				fmt.Sprintf("layer %d needs a buffer of %s for a context of %d tokens and %d "+
					"requests at once, a buffer of this GPU has at most %s", i, gb(int64(b.Size)),
					p.ContextTokens, p.MaxSequences, gb(int64(longest))),
				"Allow fewer requests at once, or run the model on the CPU: --device cpu.")
		}
		if l.KV != nil && l.Ring == nil {
			context = min(context, p.contextFor(l.PagesWithin(longest)))
		}
	}
	if tooLong == nil {
		return nil
	}
	if context = context / 1024 * 1024; context >= minContextTokens && context < p.ContextTokens {
		tooLong.Fix = fmt.Sprintf("Use a context of at most %d tokens, or a KV cache format with "+
			"fewer bits.", context)
	}
	return tooLong
}

// contextFor returns the longest context that the given number of pages after the start holds for
// as many sequences as sizeKV may choose pages for.
func (p *Plan) contextFor(pages int) int {
	return p.Description.KVStartTokens + pages*cache.PageTokens/min(p.MaxSequences, 2)
}
