package textproc

import (
	"maps"
	"slices"

	"headroom/engine/grammar"
	"headroom/engine/structured"
	"headroom/engine/tokenizer"
)

// Compiler returns the Compiler of answers of a given form. It makes its vocabulary when the first
// request needs it, which takes a tenth of a second for 150,000 tokens.
func (p *Processor) Compiler() *structured.Compiler { return p.compiler }

// newCompiler returns the model's Compiler.
func (p *Processor) newCompiler() *structured.Compiler {
	return structured.NewCompiler(p.vocabulary, p.tokenizer.TokenID)
}

// vocabulary returns the tokens that may be text in an answer of a given form. Control tokens are
// none, nor are tags that the template's Splitter would take out.
func (p *Processor) vocabulary() *grammar.Vocabulary {
	t := p.tokenizer
	tokens := make([][]byte, t.VocabSize())
	for id := range tokens {
		if !t.IsSpecial(int32(id)) {
			tokens[id] = t.TokenBytes(int32(id))
		}
	}
	if p.template != nil {
		for _, tag := range p.template.Tags() {
			if id, ok := t.TokenID(tag); ok {
				tokens[id] = nil
			}
		}
	}
	encode := func(text string) []int32 { return t.Encode(text, tokenizer.EncodeOptions{}) }
	return grammar.NewVocabulary(tokens, slices.Sorted(maps.Keys(p.eos)), encode)
}
