package textproc

// The tokens that samplers ask for by their texts. They implement sample.Tokens.

import (
	"bytes"
	"slices"

	"headroom/engine/sample"
	"headroom/engine/tokenizer"
)

// Containing returns the mask of the tokens whose text contains one of texts. For the default
// breakers of DRY the mask is made once: it takes some 10 ms for 150,000 tokens.
func (p *Processor) Containing(texts []string) []uint64 {
	if slices.Equal(texts, sample.DefaultDRYBreakers()) {
		p.breakersOnce.Do(func() { p.breakers = p.containing(texts) })
		return p.breakers
	}
	return p.containing(texts)
}

func (p *Processor) containing(texts []string) []uint64 {
	mask := make([]uint64, (p.tokenizer.VocabSize()+63)/64)
	parts := make([][]byte, len(texts))
	for i, text := range texts {
		parts[i] = []byte(text)
	}
	for id := range p.tokenizer.VocabSize() {
		text := p.tokenizer.TokenBytes(int32(id))
		in := func(part []byte) bool { return bytes.Contains(text, part) }
		if slices.ContainsFunc(parts, in) {
			mask[id/64] |= 1 << (id % 64)
		}
	}
	return mask
}

// Ends returns the mask of the tokens that end an answer or are a line break. XTC never drops them,
// as in mlx-lm.
func (p *Processor) Ends() []uint64 {
	mask := make([]uint64, (p.tokenizer.VocabSize()+63)/64)
	ids := p.tokenizer.Encode("\n", tokenizer.EncodeOptions{})
	for id := range p.eos {
		ids = append(ids, id)
	}
	for _, id := range ids {
		if i := int(id) / 64; id >= 0 && i < len(mask) {
			mask[i] |= 1 << (id % 64)
		}
	}
	return mask
}
