// Package textproc reads a model's tokenizer, chat template, recommended sampling parameters and
// end-of-sequence tokens. It needs no device, so clients of a model in another process can use it
// too.
package textproc

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"headroom/engine/chat"
	"headroom/engine/checkpoint"
	"headroom/engine/problem"
	"headroom/engine/sample"
	"headroom/engine/structured"
	"headroom/engine/tokenizer"
)

// Processor converts text to tokens of one model and back. Its methods may be called from any
// goroutine.
type Processor struct {
	tokenizer *tokenizer.Tokenizer
	template  *chat.Template // nil: none
	defaults  sample.Defaults
	eos       map[int32]bool
	tags      map[int32]bool // special tokens that the template's Splitter needs
	compiler  *structured.Compiler

	breakersOnce sync.Once
	breakers     []uint64 // the tokens of the default breakers of DRY
}

// Read reads a model's Processor from the model's files. Errors are Problems.
func Read(src checkpoint.Source) (*Processor, error) {
	config, err := src.Config()
	if err != nil {
		return nil, err
	}
	return ReadWithConfig(src, config)
}

// ReadWithConfig is like Read, for callers that have already parsed the model's config.json.
func ReadWithConfig(src checkpoint.Source, config *checkpoint.Config) (*Processor, error) {
	beside, err := readTokenizerConfig(src)
	if err != nil {
		return nil, err
	}
	var sizes struct {
		Vocab int `json:"vocab_size"`
	}
	if err := config.Decode(&sizes); err != nil {
		return nil, err
	}
	t, err := readTokenizer(src, beside, sizes.Vocab)
	if err != nil {
		return nil, err
	}
	p := &Processor{tokenizer: t, eos: map[int32]bool{}}
	p.template, err = readTemplate(src, beside)
	if err != nil && !errors.Is(err, chat.ErrNoTemplate) {
		return nil, err
	}
	p.readTags()
	data, err := src.ReadFile("generation_config.json")
	if err == nil {
		p.defaults, err = sample.FromGenerationConfig(data)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, unusable("generation_config.json", err)
	}
	p.readEOS(config, beside)
	p.compiler = p.newCompiler()
	return p, nil
}

// tokenizerFiles has the files with a tokenizer, in order of precedence.
var tokenizerFiles = []struct {
	name  string
	parse func(data []byte, config *tokenizer.Config, vocabSize int) (*tokenizer.Tokenizer, error)
}{
	{"tokenizer.json", tokenizer.ParseWithConfig},
	{"tokenizer.model", tokenizer.ParseSentencePiece},
	{"tekken.json", func(data []byte, _ *tokenizer.Config, _ int) (*tokenizer.Tokenizer, error) {
		return tokenizer.ParseTekken(data) // it has all tokens
	}},
	{"tiktoken.model", func(data []byte, config *tokenizer.Config, _ int) (*tokenizer.Tokenizer,
		error) {
		return tokenizer.ParseTiktoken(data, config)
	}},
}

// TokenizerFile returns the name of the file with the model's tokenizer, or "" if it has none.
func TokenizerFile(src checkpoint.Source) string {
	for _, f := range tokenizerFiles {
		if src.Has(f.name) {
			return f.name
		}
	}
	return ""
}

// readTokenizer reads a model's tokenizer. config is what the files beside it say. vocabSize is the
// number of tokens that the model has; 0: not known. Errors are Problems.
func readTokenizer(src checkpoint.Source, config *tokenizer.Config, vocabSize int) (
	*tokenizer.Tokenizer, error) {
	for _, f := range tokenizerFiles {
		if !src.Has(f.name) {
			continue
		}
		data, err := src.ReadFile(f.name)
		if err != nil {
			return nil, problem.Wrap(problem.ModelBroken, err,
				"The model's "+f.name+" cannot be read", "Download or convert the model again.")
		}
		t, err := f.parse(data, config, vocabSize)
		if err != nil {
			return nil, problem.Wrap(problem.ModelBroken, err,
				"The model's "+f.name+" cannot be used",
				"Download or convert the model again. If that does not help, choose another one.")
		}
		return t, nil
	}
	return nil, problem.New(problem.ModelBroken, "The model has no tokenizer",
		"It needs a tokenizer.json, a tokenizer.model, a tekken.json or a tiktoken.model.",
		"Download it again.")
}

// readTags finds the tokens of the tags that the template's format has.
func (p *Processor) readTags() {
	p.tags = map[int32]bool{}
	if p.template == nil {
		return
	}
	// A tag may be longer than its token: Gemma's reasoning begins with a token and a word.
	for _, tag := range p.template.Tags() {
		if id, ok := p.tokenizer.TokenID(tag); ok && p.tokenizer.IsSpecial(id) {
			p.tags[id] = true
		}
	}
	for _, tag := range p.template.EndTags() {
		if id, ok := p.tokenizer.TokenID(tag); ok && p.tokenizer.IsSpecial(id) {
			p.addEOS([]int32{id})
		}
	}
}

// NewStream returns a stream of the answer to a prompt. It omits special tokens. With tags, the
// answer is a message, and the stream keeps the special tokens that the template's Splitter needs.
// Otherwise it continues the prompt.
func (p *Processor) NewStream(prompt []int32, tags bool) *tokenizer.Stream {
	if tags {
		return p.tokenizer.NewStream(true).Keep(p.tags)
	}
	return p.tokenizer.NewContinuation(prompt)
}

// Tokenizer returns the model's tokenizer.
func (p *Processor) Tokenizer() *tokenizer.Tokenizer { return p.tokenizer }

// Template returns the model's chat template, or nil if it has none.
func (p *Processor) Template() *chat.Template { return p.template }

// Defaults returns the sampling parameters that the model's generation_config.json recommends.
func (p *Processor) Defaults() sample.Defaults { return p.defaults }

// IsEOS reports whether a token ends a generation. In chat models, such a token also ends each
// message.
func (p *Processor) IsEOS(token int32) bool { return p.eos[token] }

// titleRunes is the maximum length of a title, in runes.
const titleRunes = 80

// Title returns a title for the conversation that begins with a prompt, for display in lists. The
// title is the beginning of the first message, or of the second one if the first is the system
// message.
func (p *Processor) Title(prompt []int32) string {
	const window = 64 // tokens: enough for titleRunes in most languages
	message := func(from int) (role, words string) {
		d := p.tokenizer.NewStream(true)
		var b strings.Builder
		for _, token := range prompt[from:min(from+window, len(prompt))] {
			if p.IsEOS(token) {
				break
			}
			b.WriteString(d.Add(token))
		}
		role, words, _ = strings.Cut(strings.TrimSpace(b.String()), "\n")
		return role, words
	}
	role, words := message(0)
	if role == "system" {
		if end := slices.IndexFunc(prompt, p.IsEOS); end >= 0 && end+1 < len(prompt) {
			role, words = message(end + 1)
		}
	}
	if role != "user" && role != "system" {
		words = role + " " + words
	}
	words = strings.Join(strings.Fields(words), " ")
	if utf8.RuneCountInString(words) > titleRunes {
		words = strings.TrimSpace(string([]rune(words)[:titleRunes-1])) + "…"
	}
	return words
}
