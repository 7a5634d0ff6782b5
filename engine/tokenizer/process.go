package tokenizer

// Post-processing: special tokens before and after the ids of a text. Each kind of post_processor
// is one row of processorKinds.

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// processorKinds has the kinds of post_processors by their names in tokenizer.json.
var processorKinds = map[string]func(*Tokenizer, *part) error{
	"BertProcessing":     bertProcessor,
	"ByteLevel":          func(*Tokenizer, *part) error { return nil }, // only changes offsets
	"RobertaProcessing":  bertProcessor,
	"TemplateProcessing": templateProcessor,
}

func (t *Tokenizer) buildProcessor(file *fileJSON) error {
	parts, err := file.PostProcessor.flatten("processors")
	if err != nil {
		return err
	}
	for _, p := range parts {
		build, ok := processorKinds[p.kind]
		if !ok {
			return fmt.Errorf("type %q is not supported", p.kind)
		}
		if err := build(t, p); err != nil {
			return err
		}
	}
	return nil
}

// surround adds ids before and after those of earlier processors.
func (t *Tokenizer) surround(before, after []int32) error {
	t.prefix = append(before, t.prefix...)
	t.suffix = append(t.suffix, after...)
	if n := len(t.prefix) + len(t.suffix); n > maxTemplateTokens {
		return fmt.Errorf("it adds %d tokens to a text, the limit is %d", n, maxTemplateTokens)
	}
	return nil
}

// checkID returns an error if id, which the file gives for name, does not exist.
func (t *Tokenizer) checkID(name string, id int32) error {
	if !t.pieces.used(id) {
		return fmt.Errorf("%q has id %d, which is not in vocab", name, id)
	}
	return nil
}

// templateJSON is one part of a template. Exactly one of its fields is set.
type templateJSON struct {
	SpecialToken *struct {
		ID string `json:"id"`
	} `json:"SpecialToken"`
	Sequence *struct {
		ID string `json:"id"`
	} `json:"Sequence"`
}

// templateProcessor adds the special tokens of a template.
func templateProcessor(t *Tokenizer, p *part) error {
	var f struct {
		Single        []templateJSON `json:"single"`
		Pair          []templateJSON `json:"pair"`
		SpecialTokens map[string]struct {
			IDs []int32 `json:"ids"`
		} `json:"special_tokens"`
	}
	if err := p.read(&f); err != nil {
		return err
	}
	var before, after []int32
	texts := 0
	for _, part := range f.Single {
		if part.Sequence != nil {
			texts++
			continue
		}
		if part.SpecialToken == nil {
			return errors.New("a part of single is neither SpecialToken nor Sequence")
		}
		token, ok := f.SpecialTokens[part.SpecialToken.ID]
		if !ok {
			return fmt.Errorf("special_tokens lacks %q", part.SpecialToken.ID)
		}
		for _, id := range token.IDs {
			if err := t.checkID(part.SpecialToken.ID, id); err != nil {
				return err
			}
		}
		if texts == 0 {
			before = append(before, token.IDs...)
		} else {
			after = append(after, token.IDs...)
		}
		if len(before)+len(after) > maxTemplateTokens {
			break
		}
	}
	if len(before)+len(after) <= maxTemplateTokens && texts != 1 {
		return fmt.Errorf("single has %d Sequence parts, expected 1", texts)
	}
	t.pair = readPair(f.Pair, func(name string) ([]int32, bool) {
		token, ok := f.SpecialTokens[name]
		return token.IDs, ok && !slices.ContainsFunc(token.IDs, func(id int32) bool {
			return t.checkID(name, id) != nil
		})
	})
	return t.surround(before, after)
}

// Pair has the special tokens of a pair of texts, of which a model tells how well the second
// answers the first.
type Pair struct{ Before, Between, After []int32 }

// Pair returns the special tokens of a pair of texts; nil if the tokenizer has none for pairs.
func (t *Tokenizer) Pair() *Pair { return t.pair }

// readPair reads the template of a pair. It returns nil if that is not one text after the other.
func readPair(template []templateJSON, ids func(name string) ([]int32, bool)) *Pair {
	p := &Pair{}
	next := []string{"A", "B"}
	into := []*[]int32{&p.Before, &p.Between, &p.After}
	total := 0
	for _, part := range template {
		switch {
		case part.Sequence != nil:
			if len(next) == 0 || part.Sequence.ID != next[0] {
				return nil
			}
			next, into = next[1:], into[1:]
		case part.SpecialToken != nil:
			tokens, ok := ids(part.SpecialToken.ID)
			if total += len(tokens); !ok || total > maxTemplateTokens {
				return nil
			}
			*into[0] = append(*into[0], tokens...)
		}
	}
	if len(next) > 0 {
		return nil
	}
	return p
}

// tokenAndID is a pair such as ["[SEP]", 102].
type tokenAndID struct {
	token string
	id    int32
}

func (p *tokenAndID) UnmarshalJSON(data []byte) error {
	return json.Unmarshal(data, &[2]any{&p.token, &p.id})
}

// bertProcessor adds a token before and one after the text, in BERT and RoBERTa.
func bertProcessor(t *Tokenizer, p *part) error {
	var f struct {
		Sep *tokenAndID `json:"sep"`
		Cls *tokenAndID `json:"cls"`
	}
	if err := p.read(&f); err != nil {
		return err
	}
	if f.Sep == nil || f.Cls == nil {
		return fmt.Errorf("%s has no sep or no cls", p.kind)
	}
	for _, token := range []*tokenAndID{f.Sep, f.Cls} {
		if err := t.checkID(token.token, token.id); err != nil {
			return err
		}
	}
	t.pair = &Pair{Before: []int32{f.Cls.id}, Between: []int32{f.Sep.id}, After: []int32{f.Sep.id}}
	if p.kind == "RobertaProcessing" {
		t.pair.Between = []int32{f.Sep.id, f.Sep.id}
	}
	return t.surround([]int32{f.Cls.id}, []int32{f.Sep.id})
}
