// Package textproc reads a model's tokenizer, chat template, recommended sampling parameters and
// end-of-sequence tokens. It needs no device, so clients of a model in another process can use it
// too.
package textproc

import (
	"encoding/json"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"unicode/utf8"

	"headroom/engine/chat"
	"headroom/engine/checkpoint"
	"headroom/engine/problem"
	"headroom/engine/sample"
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
	t, err := ReadTokenizer(src)
	if err != nil {
		return nil, err
	}
	p := &Processor{tokenizer: t, eos: map[int32]bool{}}
	if p.template, err = ReadTemplate(src); err != nil && !errors.Is(err, chat.ErrNoTemplate) {
		return nil, err
	}
	p.readTags()
	for _, value := range config.EOSTokenIDs() {
		d, err := sample.FromGenerationConfig([]byte(`{"eos_token_id":` + string(value) + `}`))
		if err == nil {
			p.addEOS(d.EOSTokenIDs)
		}
	}
	data, err := src.ReadFile("generation_config.json")
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	if err == nil {
		p.defaults, err = sample.FromGenerationConfig(data)
	}
	if err != nil {
		return nil, problem.Wrap(problem.ModelBroken, err,
			"The model's generation_config.json cannot be used", "Download the model again.")
	}
	p.addEOS(p.defaults.EOSTokenIDs)
	return p, nil
}

// tokenizerFiles has the files with a tokenizer, in order of precedence.
var tokenizerFiles = []struct {
	name  string
	parse func(data []byte, src checkpoint.Source) (*tokenizer.Tokenizer, error)
}{
	{"tokenizer.json", alone(tokenizer.Parse)},
	{"tokenizer.model", alone(tokenizer.ParseSentencePiece)},
	{"tekken.json", alone(tokenizer.ParseTekken)},
	{"tiktoken.model", func(data []byte, src checkpoint.Source) (*tokenizer.Tokenizer, error) {
		config, err := src.ReadFile("tokenizer_config.json")
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		return tokenizer.ParseTiktoken(data, config)
	}},
}

// alone returns the parser of a file that needs no other file.
func alone(parse func([]byte) (*tokenizer.Tokenizer, error)) func([]byte,
	checkpoint.Source) (*tokenizer.Tokenizer, error) {
	return func(data []byte, _ checkpoint.Source) (*tokenizer.Tokenizer, error) {
		return parse(data)
	}
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

// ReadTokenizer reads a model's tokenizer. Errors are Problems.
func ReadTokenizer(src checkpoint.Source) (*tokenizer.Tokenizer, error) {
	for _, f := range tokenizerFiles {
		if !src.Has(f.name) {
			continue
		}
		data, err := src.ReadFile(f.name)
		if err != nil {
			return nil, problem.Wrap(problem.ModelBroken, err,
				"The model's "+f.name+" cannot be read", "Download the model again.")
		}
		t, err := f.parse(data, src)
		if err != nil {
			return nil, problem.Wrap(problem.ModelBroken, err,
				"The model's "+f.name+" cannot be used",
				"Download the model again. If that does not help, choose another one.")
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

func (p *Processor) addEOS(ids []int32) {
	for _, id := range ids {
		p.eos[id] = true
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

// ReadTemplate reads a model's chat template with its special tokens. Requests with tools get the
// template tool_use, if the model has one. If there is no template, the error is
// chat.ErrNoTemplate. Any other error is a Problem.
func ReadTemplate(src checkpoint.Source) (*chat.Template, error) {
	config := map[string]json.RawMessage{}
	if data, err := src.ReadFile("tokenizer_config.json"); err == nil {
		_ = json.Unmarshal(data, &config) // a damaged file counts as empty
	}
	sources := templateSources(src, config["chat_template"])
	t, err := sources[defaultTemplate].parse()
	if err != nil {
		return nil, err
	}
	if source := sources[toolUseTemplate]; source.text != "" {
		toolUse, err := source.parse()
		if err != nil {
			return nil, err
		}
		t = t.WithToolUse(toolUse)
	}
	return t.WithSpecialTokens(specialTokens(config)), nil
}

// templateSource is a chat template and the file that it is in.
type templateSource struct{ file, text string }

// parse returns the template. Its errors are those of ReadTemplate.
func (s templateSource) parse() (*chat.Template, error) {
	t, err := chat.ParseTemplate(s.text)
	if err != nil && !errors.Is(err, chat.ErrNoTemplate) {
		err = problem.Wrap(problem.ModelBroken, err,
			"The chat template in the model's "+s.file+" cannot be used",
			"Download the model again.")
	}
	return t, err
}

// The names of templates that are used, of those that a model may have.
const (
	defaultTemplate = "default"
	toolUseTemplate = "tool_use"
)

// templateSources returns the model's chat templates by name. They are files, or else in the
// chat_template of tokenizer_config.json: a text, or a list of templates with names. Processors
// save theirs in chat_template.json.
// Source: transformers/tokenization_utils_base.py, transformers/processing_utils.py.
func templateSources(src checkpoint.Source, config json.RawMessage) map[string]templateSource {
	sources := map[string]templateSource{}
	for name, file := range map[string]string{
		defaultTemplate: "chat_template.jinja",
		toolUseTemplate: "additional_chat_templates/" + toolUseTemplate + ".jinja",
	} {
		if data, err := src.ReadFile(file); err == nil {
			sources[name] = templateSource{file, string(data)}
		}
	}
	if len(sources) > 0 {
		return sources
	}
	file := "tokenizer_config.json"
	var saved struct {
		Template json.RawMessage `json:"chat_template"`
	}
	if data, err := src.ReadFile("chat_template.json"); err == nil && isNull(config) {
		_ = json.Unmarshal(data, &saved)
		file, config = "chat_template.json", saved.Template
	}
	var text string
	var list []struct{ Name, Template string }
	if json.Unmarshal(config, &text) == nil {
		sources[defaultTemplate] = templateSource{file, text}
	} else if json.Unmarshal(config, &list) == nil {
		for _, t := range list {
			sources[t.Name] = templateSource{file, t.Template}
		}
	}
	return sources
}

func isNull(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

// specialTokens returns the texts of the special tokens in tokenizer_config.json. Each is a string
// or an object with a content field. A null token stays undefined, as in Hugging Face's library.
func specialTokens(config map[string]json.RawMessage) map[string]string {
	tokens := map[string]string{}
	for _, name := range []string{"bos_token", "eos_token", "unk_token", "pad_token"} {
		var text, added = "", struct {
			Content string `json:"content"`
		}{}
		if json.Unmarshal(config[name], &text) != nil &&
			json.Unmarshal(config[name], &added) == nil {
			text = added.Content
		}
		if text != "" {
			tokens[name] = text
		}
	}
	return tokens
}

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
