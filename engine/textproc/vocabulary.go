package textproc

import (
	"bytes"
	"errors"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"headroom/engine/chat"
	"headroom/engine/grammar"
	"headroom/engine/structured"
	"headroom/engine/tokenizer"
)

// Compiler returns the Compiler of answers of a given form. It makes its vocabulary when the first
// request needs it, which takes a tenth of a second for 150,000 tokens.
func (p *Processor) Compiler() *structured.Compiler { return p.compiler }

// newCompiler returns the model's Compiler.
func (p *Processor) newCompiler() *structured.Compiler {
	watch := func(o *structured.Output) structured.CallWatch {
		if w := WatchCalls(p, o); w != nil {
			return w
		}
		return nil // not a nil pointer in an interface
	}
	return structured.NewCompiler(p.vocabulary, CallForm(p), p.tokenizer.TokenID, watch)
}

// Model is a tokenizer and a chat template.
type Model interface {
	Tokenizer() *tokenizer.Tokenizer
	Template() *chat.Template // nil: none
}

// CallForm returns the grammar of a model's calls.
func CallForm(m Model) structured.CallForm {
	return func(b *grammar.Builder, o *structured.Output) (grammar.Node, error) {
		if m.Template() == nil {
			return 0, errors.New("the model has no chat template")
		}
		return m.Template().Calls(b, callOptions(m, o))
	}
}

func callOptions(m Model, o *structured.Output) chat.CallOptions {
	return chat.CallOptions{Tools: o.Tools, One: o.OneCall, OneBlock: o.OneBlock,
		IsToken: func(tag string) bool {
			_, ok := m.Tokenizer().TokenID(tag)
			return ok
		}}
}

// WatchCalls returns what finds the calls in an answer, for a format whose calls do not begin with
// a tag; else nil.
func WatchCalls(m Model, o *structured.Output) *chat.CallWatch {
	return m.Template().WatchCalls(o.Before.Prompt, callOptions(m, o.Calls))
}

// vocabulary returns the tokens that an answer of a given form may have. Control tokens are none.
// The tags of the template are tokens that only the grammars of calls have; see chat.TagMark.
func (p *Processor) vocabulary() *grammar.Vocabulary {
	t := p.tokenizer
	tokens := make([][]byte, t.VocabSize())
	for id := range tokens {
		// The token of the byte that marks tags would spell a tag in text.
		if b := t.TokenBytes(int32(id)); !t.IsSpecial(int32(id)) &&
			!bytes.Contains(b, []byte(chat.TagMark)) {
			tokens[id] = b
		}
	}
	if p.template != nil {
		for _, tag := range p.template.Tags() {
			if id, ok := t.TokenID(tag); ok && tag != "" {
				tokens[id] = []byte(chat.TagMark + tag + chat.TagMark)
			}
		}
	}
	return grammar.NewVocabulary(tokens, slices.Sorted(maps.Keys(p.eos)), p.encodeMarked)
}

// encodeMarked returns the tokens of a text with marked tags. What is incomplete at its end is left
// out.
func (p *Processor) encodeMarked(text string) (ids []int32) {
	for i, part := range strings.Split(text, chat.TagMark) {
		if i%2 == 1 {
			id, ok := p.tokenizer.TokenID(part)
			if !ok {
				return ids
			}
			ids = append(ids, id)
			continue
		}
		for !utf8.ValidString(part) {
			part = part[:len(part)-1]
		}
		ids = append(ids, p.tokenizer.Encode(part, tokenizer.EncodeOptions{})...)
	}
	return ids
}
