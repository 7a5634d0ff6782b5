package tokenizer

// A tokenizer.json with the vocabulary of a GGUF file, for conversions. It describes the same
// tokenizer as ParseGGUF makes, with the parts that Hugging Face's library has: the scores of
// SentencePiece's BPE become merges, as transformers does it.

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"headroom/engine/gguf"
)

// GGUFToJSON returns a tokenizer.json with the vocabulary in the metadata of a GGUF file. Its
// errors name the part that is invalid, or that no conversion supports.
func GGUFToJSON(m gguf.Metadata) ([]byte, error) {
	v := newGGUFVocabulary()
	v.setAll(m)
	write, ok := ggufWriters[v.model]
	if !ok {
		return nil, fmt.Errorf("tokenizer: tokenizer.ggml.model is %.40q, expected gpt2, llama or "+
			"gemma4", v.model)
	}
	list, err := v.vocabulary()
	if err != nil {
		return nil, fmt.Errorf("tokenizer: the vocabulary of the GGUF file: %w", err)
	}
	out, err := write(v, list)
	if err != nil {
		return nil, err
	}
	if out.PostProcessor, err = v.processor(list); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(out); err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	if _, err := Parse(b.Bytes()); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

var ggufWriters = map[string]func(*ggufVocabulary, *vocabulary) (*writtenJSON, error){
	"gemma4": (*ggufVocabulary).writeGemma4,
	"gpt2":   (*ggufVocabulary).writeByteLevel,
	"llama":  (*ggufVocabulary).writeSentencePiece,
}

// jsonObject is a part of the written file.
type jsonObject = map[string]any

// writtenJSON is a tokenizer.json that is written. The order of its fields is the library's.
type writtenJSON struct {
	Version       string       `json:"version"`
	Truncation    *int         `json:"truncation"`
	Padding       *int         `json:"padding"`
	AddedTokens   []addedToken `json:"added_tokens"`
	Normalizer    any          `json:"normalizer"`
	PreTokenizer  any          `json:"pre_tokenizer"`
	PostProcessor any          `json:"post_processor"`
	Decoder       any          `json:"decoder"`
	Model         writtenModel `json:"model"`
}

type writtenModel struct {
	Type         string          `json:"type"`
	Dropout      *float64        `json:"dropout"`
	UnkToken     *string         `json:"unk_token"`
	Prefix       *string         `json:"continuing_subword_prefix"`
	Suffix       *string         `json:"end_of_word_suffix"`
	FuseUnk      bool            `json:"fuse_unk"`
	ByteFallback bool            `json:"byte_fallback"`
	IgnoreMerges bool            `json:"ignore_merges"`
	Vocab        json.RawMessage `json:"vocab"`
	Merges       [][2]string     `json:"merges"`
}

func (v *ggufVocabulary) writeByteLevel(list *vocabulary) (*writtenJSON, error) {
	pre, ok := ggufPatterns[v.pre]
	if !ok {
		return nil, fmt.Errorf("tokenizer: tokenizer.ggml.pre is %.40q, which is not supported",
			v.pre)
	}
	var steps []jsonObject
	for _, pattern := range pre.patterns {
		steps = append(steps, jsonObject{"type": "Split", "behavior": "Isolated", "invert": false,
			"pattern": jsonObject{"Regex": pattern}})
	}
	byteLevel := jsonObject{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false,
		"use_regex": false}
	out := &writtenJSON{Version: "1.0", AddedTokens: list.writtenTokens(),
		PreTokenizer: jsonObject{"type": "Sequence", "pretokenizers": append(steps, byteLevel)},
		Decoder:      byteLevel,
		Model: writtenModel{Type: "BPE", IgnoreMerges: pre.ignoreMerges,
			Vocab: list.writtenVocab(true)}}
	if pre.nfc {
		out.Normalizer = jsonObject{"type": "NFC"}
	}
	return out, v.writeMerges(out, list)
}

// The parts of tokenizers that spell spaces as ▁.
var (
	spacesToMarks = jsonObject{"type": "Replace", "pattern": jsonObject{"String": " "},
		"content": string(metaspace)}
	marksToSpaces = jsonObject{"type": "Replace", "content": " ",
		"pattern": jsonObject{"String": string(metaspace)}}
	bytesToText = jsonObject{"type": "ByteFallback"}
	fuseTokens  = jsonObject{"type": "Fuse"}
)

func (v *ggufVocabulary) writeGemma4(list *vocabulary) (*writtenJSON, error) {
	out := list.withMarks()
	out.Normalizer = spacesToMarks
	out.PreTokenizer = jsonObject{"type": "Split", "behavior": "Isolated", "invert": false,
		"pattern": jsonObject{"Regex": `[^\n]+|[\n]+`}}
	out.Decoder = jsonObject{"type": "Sequence",
		"decoders": []jsonObject{marksToSpaces, bytesToText, fuseTokens}}
	return out, v.writeMerges(out, list)
}

func (v *ggufVocabulary) writeSentencePiece(list *vocabulary) (*writtenJSON, error) {
	out := list.withMarks()
	normalizers := []jsonObject{spacesToMarks}
	decoders := []jsonObject{marksToSpaces, bytesToText, fuseTokens}
	if v.spacePrefix == nil || *v.spacePrefix {
		normalizers = append([]jsonObject{{"type": "Prepend", "prepend": string(metaspace)}},
			normalizers...)
		decoders = append(decoders, jsonObject{"type": "Strip", "content": " ", "start": 1,
			"stop": 0})
	}
	out.Normalizer = jsonObject{"type": "Sequence", "normalizers": normalizers}
	out.Decoder = jsonObject{"type": "Sequence", "decoders": decoders}
	var err error
	out.Model.Merges, err = list.scoredMerges()
	return out, err
}

// withMarks returns the file of a tokenizer that spells spaces as ▁ and unknown characters as
// bytes.
//
// Tokens of users are found in text before it is normalized, so they get spaces.
func (v *vocabulary) withMarks() *writtenJSON {
	for id, token := range v.tokens {
		if v.kinds[id] == userToken {
			v.tokens[id] = strings.ReplaceAll(token, string(metaspace), " ")
		}
	}
	out := &writtenJSON{Version: "1.0", AddedTokens: v.writtenTokens(),
		Model: writtenModel{Type: "BPE", FuseUnk: true, ByteFallback: true,
			Vocab: v.writtenVocab(false)}}
	if unknown := v.unknown(); unknown >= 0 {
		out.Model.UnkToken = &v.tokens[unknown]
	}
	return out
}

// writtenTokens returns added_tokens.
func (v *vocabulary) writtenTokens() []addedToken {
	out := []addedToken{}
	for id, token := range v.tokens {
		switch v.kinds[id] {
		case controlToken, unknownToken, userToken:
			out = append(out, addedToken{ID: int32(id), Content: token,
				Special: v.kinds[id] != userToken})
		}
	}
	return out
}

// writtenVocab returns the tokens and their ids, in the order of the ids. Of equal tokens, the
// first is in it. With last, added tokens after all others are left out, as in originals.
func (v *vocabulary) writtenVocab(last bool) json.RawMessage {
	end := len(v.tokens)
	for last && end > 0 && (v.kinds[end-1] == controlToken || v.kinds[end-1] == userToken) {
		end--
	}
	seen := make(map[string]bool, end)
	text := []byte{'{'}
	for id, token := range v.tokens[:end] {
		if seen[token] {
			continue
		}
		seen[token] = true
		if len(text) > 1 {
			text = append(text, ',')
		}
		name, _ := json.Marshal(token)
		text = fmt.Appendf(append(text, name...), ":%d", id)
	}
	return append(text, '}')
}

// writeMerges sets the merges of the file, without those of tokens that it does not have.
func (v *ggufVocabulary) writeMerges(out *writtenJSON, list *vocabulary) error {
	known := make(map[string]bool, len(list.tokens))
	for _, token := range list.tokens {
		known[token] = true
	}
	out.Model.Merges = [][2]string{}
	for rank, merge := range v.merges {
		at := strings.Index(merge[min(1, len(merge)):], " ") + 1
		if at == 0 {
			return fmt.Errorf("tokenizer: merge %d is %.40q, expected two tokens", rank, merge)
		}
		left, right := merge[:at], merge[at+1:]
		if known[left] && known[right] && known[left+right] {
			out.Model.Merges = append(out.Model.Merges, [2]string{left, right})
		}
	}
	return nil
}

// scoredMerges returns the merges of a vocabulary with scores: any two tokens are merged whose
// spellings together are a token, those with the highest score first.
// Source: transformers, convert_slow_tokenizer.py, generate_merges.
func (v *vocabulary) scoredMerges() ([][2]string, error) {
	ids := make(map[string]int, len(v.tokens))
	for id, token := range v.tokens {
		if _, twice := ids[token]; !twice && v.kinds[id] == normalToken {
			ids[token] = id
		}
	}
	type merge struct {
		parts [2]string
		score float64
	}
	var all []merge
	for id, token := range v.tokens {
		if ids[token] != id || v.kinds[id] != normalToken {
			continue
		}
		if len(token) > maxPieceBytes*4 {
			return nil, fmt.Errorf("tokenizer: token %d has %d bytes, the limit is %d", id,
				len(token), maxPieceBytes*4)
		}
		for i := range token {
			_, ok1 := ids[token[:i]]
			_, ok2 := ids[token[i:]]
			if ok1 && ok2 {
				all = append(all, merge{[2]string{token[:i], token[i:]}, v.scores[id]})
			}
		}
		if len(all) > 4*maxMerges {
			return nil, fmt.Errorf("tokenizer: it has more than %d merges", 4*maxMerges)
		}
	}
	slices.SortStableFunc(all, func(a, b merge) int {
		return cmp.Or(cmp.Compare(b.score, a.score),
			cmp.Compare(len(b.parts[0]), len(a.parts[0])))
	})
	out := make([][2]string, len(all))
	for i, m := range all {
		out[i] = m.parts
	}
	return out, nil
}

// processor returns the post_processor, which adds special tokens on request; nil: it adds none.
func (v *ggufVocabulary) processor(list *vocabulary) (any, error) {
	before, after := v.edges()
	if len(before)+len(after) == 0 {
		return nil, nil
	}
	tokens := jsonObject{}
	template := []jsonObject{}
	special := func(ids []int32) error {
		for _, id := range ids {
			if int(id) >= len(list.tokens) {
				return fmt.Errorf("tokenizer: a special token has the id %d, but there are %d "+
					"tokens", id, len(list.tokens))
			}
			name := list.tokens[id]
			tokens[name] = jsonObject{"id": name, "ids": []int32{id}, "tokens": []string{name}}
			template = append(template, jsonObject{"SpecialToken": jsonObject{"id": name,
				"type_id": 0}})
		}
		return nil
	}
	if err := special(before); err != nil {
		return nil, err
	}
	template = append(template, jsonObject{"Sequence": jsonObject{"id": "A", "type_id": 0}})
	if err := special(after); err != nil {
		return nil, err
	}
	second := jsonObject{"Sequence": jsonObject{"id": "B", "type_id": 1}}
	return jsonObject{"type": "TemplateProcessing", "single": template,
		"pair": append(slices.Clone(template), second), "special_tokens": tokens}, nil
}
