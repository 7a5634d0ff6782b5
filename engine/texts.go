package engine

// What a model is beside its weights: tokenizer, chat template, recommended sampling, the tokens
// that end a generation. It takes no device, so that who talks to a model in another process can
// have it too.

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

// Texts is that of one model. It may be used from any goroutine.
type Texts struct {
	tokenizer *tokenizer.Tokenizer
	template  *chat.Template // nil: none
	defaults  sample.Defaults
	end       map[int32]bool // tokens that end a generation
}

// Tokenizer turns text into the model's tokens and back.
func (t *Texts) Tokenizer() *tokenizer.Tokenizer { return t.tokenizer }

// Template is the model's chat template, nil if it has none.
func (t *Texts) Template() *chat.Template { return t.template }

// Defaults is what the model's generation_config.json recommends.
func (t *Texts) Defaults() sample.Defaults { return t.defaults }

func (t *Texts) isEnd(token int32) bool { return t.end[token] }

// ReadTexts reads them without loading the model. Errors are Problems.
func ReadTexts(src Source) (*Texts, error) {
	config, err := src.Config()
	if err != nil {
		return nil, err
	}
	return readTexts(src, config)
}

func readTexts(src Source, config *checkpoint.Config) (*Texts, error) {
	t := &Texts{end: map[int32]bool{}}
	data, err := src.ReadFile("tokenizer.json")
	if err != nil {
		return nil, problem.Wrap(problem.ModelBroken, err,
			"The model has no readable tokenizer.json",
			"Download it again; models with other tokenizer files are not supported.")
	}
	if t.tokenizer, err = tokenizer.Parse(data); err != nil {
		return nil, problem.Wrap(problem.ModelBroken, err,
			"The model's tokenizer.json cannot be used",
			"Headroom reads byte-level BPE tokenizers: pick a model that has one, or, if this one "+
				"should, download it again.")
	}
	if t.template, err = readTemplate(src); err != nil && !errors.Is(err, chat.ErrNoTemplate) {
		return nil, err
	}
	var eos struct {
		ID json.RawMessage `json:"eos_token_id"`
	}
	if err := config.Decode(&eos); err == nil && eos.ID != nil {
		d, err := sample.FromGenerationConfig([]byte(`{"eos_token_id":` + string(eos.ID) + `}`))
		if err == nil {
			t.addEnds(d.EOSTokenIDs)
		}
	}
	data, err = src.ReadFile("generation_config.json")
	if errors.Is(err, fs.ErrNotExist) {
		return t, nil
	}
	if err == nil {
		t.defaults, err = sample.FromGenerationConfig(data)
	}
	if err != nil {
		return nil, problem.Wrap(problem.ModelBroken, err,
			"The model's generation_config.json cannot be used", "Download the model again.")
	}
	t.addEnds(t.defaults.EOSTokenIDs)
	return t, nil
}

func (t *Texts) addEnds(ids []int32) {
	for _, id := range ids {
		t.end[id] = true
	}
}

// readTemplate finds the chat template, a file of its own or an entry of tokenizer_config.json, and
// gives it the special tokens.
func readTemplate(src Source) (*chat.Template, error) {
	config := map[string]json.RawMessage{}
	if data, err := src.ReadFile("tokenizer_config.json"); err == nil {
		_ = json.Unmarshal(data, &config) // a broken one has nothing to say
	}
	data, err := src.ReadFile("chat_template.jinja")
	text := string(data)
	if err != nil {
		_ = json.Unmarshal(config["chat_template"], &text)
	}
	t, err := chat.ParseTemplate(text)
	if err != nil {
		if errors.Is(err, chat.ErrNoTemplate) {
			return nil, err
		}
		return nil, problem.Wrap(problem.ModelBroken, err,
			"The model's chat_template.jinja cannot be used", "Download the model again.")
	}
	return t.WithSpecialTokens(specialTokens(config)), nil
}

// specialTokens returns the texts of the special tokens that tokenizer_config.json names, as
// strings or as objects with a content; null ones stay undefined, as in Hugging Face's library.
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

// titleRunes is the length of a conversation's title.
const titleRunes = 80

// Title is how a conversation that begins with these tokens is called in lists: the beginning of
// the first thing that was said in it, by the user if there is one.
func (t *Texts) Title(prompt []int32) string {
	const window = 64 // tokens: enough for titleRunes of most languages
	text := func(from int) (role, words string) {
		d := t.tokenizer.NewStream(true)
		var b strings.Builder
		for _, token := range prompt[from:min(from+window, len(prompt))] {
			if t.isEnd(token) {
				break
			}
			b.WriteString(d.Add(token))
		}
		role, words, _ = strings.Cut(strings.TrimSpace(b.String()), "\n")
		return role, words
	}
	role, words := text(0)
	if role == "system" {
		if end := slices.IndexFunc(prompt, t.isEnd); end >= 0 && end+1 < len(prompt) {
			role, words = text(end + 1)
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
