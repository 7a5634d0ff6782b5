package tokenizer

// Mistral's tekken.json: byte-level BPE whose tokens are bytes in the order of their ranks. Special
// tokens have the first ids. Source: https://github.com/mistralai/mistral-common,
// src/mistral_common/tokens/tokenizers/tekken.py

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// tekkenJSON is a tekken.json.
type tekkenJSON struct {
	Config struct {
		Pattern     string `json:"pattern"`
		VocabSize   int    `json:"default_vocab_size"`
		SpecialSize int    `json:"default_num_special_tokens"`
	} `json:"config"`
	Vocab []struct {
		Rank  int    `json:"rank"`
		Bytes []byte `json:"token_bytes"`
	} `json:"vocab"`
	SpecialTokens []struct {
		Rank int    `json:"rank"`
		Text string `json:"token_str"`
	} `json:"special_tokens"` // absent in the first version
}

// firstTekkenTokens are the special tokens of files that do not list them.
var firstTekkenTokens = []string{"<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]",
	"[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[TOOL_CALLS]", "[IMG]", "<pad>",
	"[IMG_BREAK]", "[IMG_END]", "[PREFIX]", "[MIDDLE]", "[SUFFIX]", "[SYSTEM_PROMPT]",
	"[/SYSTEM_PROMPT]", "[TOOL_CONTENT]"}

// ParseTekken parses a tekken.json. Its errors name the part that is invalid or not supported.
func ParseTekken(data []byte) (*Tokenizer, error) {
	if len(data) > maxFileBytes {
		return nil, fmt.Errorf("tokenizer: tekken.json has %d bytes, the limit is %d", len(data),
			maxFileBytes)
	}
	// A part such as {} takes a hundred times its size in memory.
	if n := bytes.Count(data, []byte("{")); n > maxObjects {
		return nil, fmt.Errorf("tokenizer: tekken.json has %d opening braces, the limit is %d", n,
			maxObjects)
	}
	if !utf8.Valid(data) {
		return nil, errors.New("tokenizer: not a tekken.json: not valid UTF-8")
	}
	var f tekkenJSON
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("tokenizer: not a tekken.json: %w", err)
	}
	v, err := f.vocabulary()
	if err != nil {
		return nil, fmt.Errorf("tokenizer: tekken.json: %w", err)
	}
	t, err := byteLevelFile(v.added(), f.Config.Pattern).assembleRanks(v)
	if err != nil {
		return nil, err
	}
	if bos, ok := t.vocab["<s>"]; ok && t.IsSpecial(bos) {
		t.prefix = []int32{bos}
	}
	return t, nil
}

// vocabulary returns the tokens by id.
func (f *tekkenJSON) vocabulary() (*vocabulary, error) {
	special, size := f.Config.SpecialSize, f.Config.VocabSize
	if special < 0 || size < special || size > maxVocab || len(f.SpecialTokens) > special {
		return nil, fmt.Errorf("it has %d tokens, %d of them special", size, special)
	}
	if size-special > len(f.Vocab) {
		return nil, fmt.Errorf("it has %d tokens in vocab, expected at least %d", len(f.Vocab),
			size-special)
	}
	names := make([]string, special)
	for i := range names {
		names[i] = "<SPECIAL_" + strconv.Itoa(i) + ">"
	}
	if f.SpecialTokens == nil {
		copy(names, firstTekkenTokens)
	}
	for _, token := range f.SpecialTokens {
		if token.Rank < 0 || token.Rank >= special {
			return nil, fmt.Errorf("special token %.40q has rank %d, expected less than %d",
				token.Text, token.Rank, special)
		}
		names[token.Rank] = token.Text
	}
	v := &vocabulary{}
	for _, name := range names {
		if err := v.add(name, 0, controlToken); err != nil {
			return nil, err
		}
	}
	for i, token := range f.Vocab[:size-special] {
		if token.Rank != i {
			return nil, fmt.Errorf("token %d of vocab has rank %d", i, token.Rank)
		}
		spelled := string(appendByteLevel(nil, string(token.Bytes)))
		if err := v.add(spelled, float64(-i), normalToken); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// byteLevelFile returns the parts of byte-level BPE that splits text at the matches of expressions,
// one after another.
func byteLevelFile(added []addedToken, patterns ...string) *fileJSON {
	var splitters []*part
	for _, pattern := range patterns {
		fields, _ := json.Marshal(map[string]any{"pattern": map[string]string{"Regex": pattern},
			"behavior": "Isolated"})
		splitters = append(splitters, partOf("Split", string(fields)))
	}
	splitters = append(splitters,
		partOf("ByteLevel", `{"add_prefix_space":false,"use_regex":false}`))
	return &fileJSON{AddedTokens: added, PreTokenizer: sequence(splitters...),
		Decoder: partOf("ByteLevel", "{}"), Model: modelJSON{Type: "BPE"}}
}

// assembleRanks makes a tokenizer whose merges follow from the ranks of the tokens. A word that is
// a token is not merged.
func (f *fileJSON) assembleRanks(v *vocabulary) (*Tokenizer, error) {
	return assemble(f, func(t *Tokenizer, _ *fileJSON) error {
		v.setVocab(t)
		m := &bpe{ignoreMerges: true, cache: newWordCache()}
		t.model = m
		if err := m.alphabet.build(t, &f.Model); err != nil {
			return err
		}
		return v.setMerges(t, m)
	})
}
