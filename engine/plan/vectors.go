package plan

// Models that compute vectors or scores: no prompt is continued or cached, and many short texts run
// at once.

import (
	"headroom/engine/cache"
	"headroom/engine/models"
	"headroom/engine/problem"
)

const (
	// vectorSequences is the number of texts that run at once, unless another one is requested.
	vectorSequences = 64
	// vectorTokens is the number of tokens of a pass, unless another one is requested. With fewer,
	// reading and packing weights takes more of the time (kernels/matmul/split.c).
	vectorTokens = 1024
)

// planVectors changes the defaults for a model that computes vectors. o are the requested options.
func (p *Plan) planVectors(spec models.Spec, o Options) (err error) {
	if o.MaxSequences <= 0 {
		p.MaxSequences = vectorSequences
	}
	// The keys and values of a text are needed for a moment only, so saving memory gains nothing.
	if o.KVFormat.Name == "" && o.KVFormat.Bits == "" && o.KVFormat.GroupSize == "" {
		p.KVFormat = cache.FormatOptions{Name: "f32"}
		if p.KV, err = cache.ParseFormat(p.KVFormat); err != nil {
			return problem.Wrap(problem.Internal, err, "The KV cache cannot be planned", "")
		}
	}
	p.MaxKVTokens, p.SelectTokens, p.NoPrefixCache = 0, 0, true
	if o.ChunkTokens <= 0 {
		p.ChunkTokens = max(p.ChunkTokens, vectorTokens)
	}
	if spec.Vectors.Whole {
		longest := spec.ContextTokens
		if o.ContextTokens > 0 {
			longest = min(longest, o.ContextTokens)
		}
		p.ChunkTokens = max(p.ChunkTokens, longest)
	}
	return nil
}

// vectorPageTokens returns how many tokens the pages of texts that run at once hold, the longest of
// which has the given length.
func (p *Plan) vectorPageTokens(longest int) int {
	return longest + p.ChunkTokens + p.MaxSequences*cache.PageTokens
}
