package tokenizer

// tokenizer_config.json, which has the names of special tokens, and added tokens whose flags take
// precedence over those of tokenizer.json. Models without added_tokens_decoder may have the same in
// special_tokens_map.json and added_tokens.json.
//
// The reference is AutoTokenizer of transformers 5. Like there, a token that the tokenizer does not
// have gets the next free id, whatever its key in added_tokens_decoder. Unlike there, it is not
// added if the model has no embedding for that id: prompts with it could only be refused.

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Config is what tokenizer_config.json and the files beside it say. The zero value says nothing.
type Config struct {
	// Special maps the names of special tokens, such as "eos_token" and "image_token", to their
	// texts.
	Special map[string]string
	// ChatTemplate is the JSON value of chat_template; nil: none.
	ChatTemplate json.RawMessage

	named   []addedToken // the special tokens that have names, in the order of transformers
	extra   []addedToken // other special tokens
	decoder []addedToken // of added_tokens_decoder, sorted by id, or of added_tokens.json

	// hasDecoder says that there is an added_tokens_decoder. Otherwise the added tokens of
	// tokenizer.json count as one.
	hasDecoder bool
}

// ConfigFiles are the contents of files with a Config. A file that is nil does not exist.
type ConfigFiles struct {
	TokenizerConfig  []byte // tokenizer_config.json
	SpecialTokensMap []byte // special_tokens_map.json
	AddedTokens      []byte // added_tokens.json
}

// standardNames are the special tokens that every tokenizer of transformers can have, in its order.
var standardNames = []string{"bos_token", "eos_token", "unk_token", "sep_token", "pad_token",
	"cls_token", "mask_token"}

// ParseConfig parses the files of a Config. Its errors say what is invalid.
func ParseConfig(files ConfigFiles) (*Config, error) {
	c := &Config{Special: map[string]string{}}
	keys := &object{values: map[string]json.RawMessage{}}
	if err := keys.merge("tokenizer_config.json", files.TokenizerConfig); err != nil {
		return nil, err
	}
	c.ChatTemplate = keys.values["chat_template"]
	decoder := keys.values["added_tokens_decoder"]
	if c.hasDecoder = decoder != nil; !c.hasDecoder {
		if err := keys.merge("special_tokens_map.json", files.SpecialTokensMap); err != nil {
			return nil, err
		}
	}
	if err := c.readSpecial(keys); err != nil {
		return nil, err
	}
	if c.hasDecoder {
		return c, c.readDecoder(decoder)
	}
	return c, c.readAddedTokens(files.AddedTokens)
}

// object is a JSON object. names has its keys in the order of the file.
type object struct {
	names  []string
	values map[string]json.RawMessage
}

// merge adds the members of the file called name, whose content is data, or nil.
func (o *object) merge(name string, data []byte) error {
	if data == nil {
		return nil
	}
	if !utf8.Valid(data) {
		return fmt.Errorf("tokenizer: %s is not valid UTF-8", name)
	}
	var values map[string]json.RawMessage
	if err := json.Unmarshal(data, &values); err != nil {
		if trimmed := bytes.TrimSpace(data); json.Valid(trimmed) {
			return fmt.Errorf("tokenizer: %s has %.20q, expected an object", name, trimmed)
		}
		return fmt.Errorf("tokenizer: %s is not valid JSON: %w", name, err)
	}
	if values == nil {
		return fmt.Errorf("tokenizer: %s has null, expected an object", name)
	}
	for d := newMembers(data); d.More(); {
		name, _ := d.Token()
		var skipped json.RawMessage
		if err := d.Decode(&skipped); err != nil {
			return fmt.Errorf("tokenizer: %s: %w", name, err)
		}
		if key := name.(string); o.values[key] == nil {
			o.names = append(o.names, key)
			o.values[key] = values[key]
		}
	}
	maps.Copy(o.values, values)
	return nil
}

// newMembers returns a decoder that is inside the object data.
func newMembers(data []byte) *json.Decoder {
	d := json.NewDecoder(bytes.NewReader(data))
	_, _ = d.Token() // the brace
	return d
}

// readSpecial reads the special tokens with and without names.
func (c *Config) readSpecial(keys *object) error {
	for _, name := range standardNames {
		c.addNamed(name, keys.values[name])
	}
	for _, name := range keys.names {
		if strings.HasSuffix(name, "_token") && !slices.Contains(standardNames, name) {
			c.addNamed(name, keys.values[name])
		}
	}
	extra := keys.values["extra_special_tokens"]
	if isEmpty(extra) {
		extra = keys.values["additional_special_tokens"]
	}
	for _, value := range []json.RawMessage{extra, keys.values["model_specific_special_tokens"]} {
		if bytes.HasPrefix(value, []byte("{")) {
			inner := &object{values: map[string]json.RawMessage{}}
			if err := inner.merge("extra_special_tokens", value); err != nil {
				return err
			}
			for _, name := range inner.names {
				c.addNamed(name, inner.values[name])
			}
		}
	}
	var list []json.RawMessage
	if json.Unmarshal(extra, &list) == nil {
		for _, value := range list {
			if token, ok := specialToken(value); ok {
				c.extra = append(c.extra, token)
			}
		}
	}
	return nil
}

// isEmpty reports whether Python would take a value for false.
func isEmpty(raw json.RawMessage) bool {
	return slices.Contains([]string{"", "null", "[]", "{}"}, string(raw))
}

// addNamed adds a special token. Values that are no tokens, such as numbers and null, do not count.
func (c *Config) addNamed(name string, value json.RawMessage) {
	if token, ok := specialToken(value); ok {
		token.Special = true
		c.Special[name] = token.Content
		c.named = append(c.named, token)
	} else if string(value) == `""` {
		c.Special[name] = ""
	}
}

// specialToken reads a special token: a text, or an object with the fields of an added token.
func specialToken(value json.RawMessage) (addedToken, bool) {
	var text string
	if json.Unmarshal(value, &text) == nil && text != "" {
		return addedToken{Content: text, Special: true}, true
	}
	token, err := parseAdded(value)
	return token, err == nil && token.Content != ""
}

// parseAdded reads an added token. Like in transformers, one that does not say otherwise is
// normalized unless it is special.
func parseAdded(value json.RawMessage) (addedToken, error) {
	var flags struct {
		addedToken
		Normalized *bool `json:"normalized"`
	}
	err := json.Unmarshal(value, &flags)
	token := flags.addedToken
	if token.Normalized = !token.Special; flags.Normalized != nil {
		token.Normalized = *flags.Normalized
	}
	return token, err
}

func (c *Config) readDecoder(raw json.RawMessage) error {
	var tokens map[string]json.RawMessage
	if err := json.Unmarshal(raw, &tokens); err != nil {
		return fmt.Errorf("tokenizer: added_tokens_decoder has %.20q, expected an object", raw)
	}
	for id, value := range tokens {
		token, err := parseAdded(value)
		n, notID := strconv.ParseInt(id, 10, 32)
		if err != nil || notID != nil || n < 0 {
			return fmt.Errorf("tokenizer: added_tokens_decoder has %.40q: %.80s, expected an id "+
				"and an added token", id, value)
		}
		token.ID = int32(n)
		c.decoder = append(c.decoder, token)
	}
	c.sortDecoder()
	return nil
}

// readAddedTokens reads added_tokens.json, which has the ids of tokens.
func (c *Config) readAddedTokens(data []byte) error {
	if data == nil {
		return nil
	}
	var ids map[string]int32
	if err := json.Unmarshal(data, &ids); err != nil || !utf8.Valid(data) {
		return fmt.Errorf("tokenizer: added_tokens.json: got %.40q, expected an object from "+
			"tokens to ids", data)
	}
	for text, id := range ids {
		special := c.isSpecial(text)
		c.decoder = append(c.decoder, addedToken{ID: id, Content: text, Special: special,
			Normalized: !special})
	}
	c.sortDecoder()
	return nil
}

func (c *Config) isSpecial(text string) bool {
	return hasToken(c.named, text) || hasToken(c.extra, text)
}

func hasToken(tokens []addedToken, text string) bool {
	return slices.ContainsFunc(tokens, func(t addedToken) bool { return t.Content == text })
}

// sortDecoder sorts the tokens by id. Two may have one id, spelled differently.
func (c *Config) sortDecoder() {
	slices.SortFunc(c.decoder, func(a, b addedToken) int {
		if a.ID != b.ID {
			return int(a.ID) - int(b.ID)
		}
		return strings.Compare(a.Content, b.Content)
	})
}

// without returns the config without the tokens of a tokenizer.model. What it adds is found in the
// text as it is.
func (c *Config) without(tokens []string) *Config {
	known := make(map[string]bool, len(tokens))
	for _, token := range tokens {
		known[token] = true
	}
	drop := func(list []addedToken) (kept []addedToken) {
		for _, token := range list {
			if token.Normalized = false; !known[token.Content] {
				kept = append(kept, token)
			}
		}
		return kept
	}
	with := *c
	with.named, with.extra, with.decoder = drop(c.named), drop(c.extra), drop(c.decoder)
	return &with
}

// apply returns the added tokens of a tokenizer, own, with those of the config. vocab has the
// tokens of the model, whose ids are below end. A new token gets an id below limit, or is left out;
// 0: no limit.
func (c *Config) apply(own []addedToken, vocab map[string]int32, end int32,
	limit int) []addedToken {
	tokens := slices.Clone(own)
	at := make(map[string]int, len(tokens)) // index in tokens
	names := make(map[string]bool, len(c.named))
	for _, token := range c.named {
		names[token.Content] = true
	}
	next := end
	for i, token := range tokens {
		if !c.hasDecoder && names[token.Content] {
			tokens[i].Special = true
		}
		at[token.Content] = i
		next = max(next, token.ID+1)
	}
	add := func(token addedToken) {
		id, known := vocab[token.Content]
		if token.ID = id; !known {
			token.ID = next
			next++
		}
		if known || limit == 0 || int(token.ID) < limit {
			at[token.Content] = len(tokens)
			tokens = append(tokens, token)
		}
	}
	for _, token := range c.decoder {
		token.Special = token.Special || names[token.Content]
		i, known := at[token.Content]
		switch {
		case token.Content == "":
		case known:
			token.ID = tokens[i].ID
			token.Special = token.Special || tokens[i].Special
			tokens[i] = token
		default:
			add(token)
		}
	}
	for _, token := range slices.Concat(c.named, c.extra) {
		if _, known := at[token.Content]; !known {
			add(token)
		}
	}
	return tokens
}
