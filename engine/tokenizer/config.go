package tokenizer

// The schema of tokenizer.json, and Parse, which builds the pipeline from it. If the file uses a
// part that this package does not implement, Parse returns an error. Only truncation and padding
// are ignored.

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"unicode/utf8"
)

// fileJSON is a tokenizer.json. In the structs below it, the comment after a field is the value of
// Type for which the field is used.
type fileJSON struct {
	AddedTokens   []addedToken    `json:"added_tokens"`
	Normalizer    *normalizerJSON `json:"normalizer"`
	PreTokenizer  *splitterJSON   `json:"pre_tokenizer"`
	PostProcessor *processorJSON  `json:"post_processor"`
	Decoder       *decoderJSON    `json:"decoder"`
	Model         modelJSON       `json:"model"`
}

type normalizerJSON struct {
	Type        string            `json:"type"`
	Normalizers []*normalizerJSON `json:"normalizers"` // Sequence
	Prepend     string            `json:"prepend"`     // Prepend
	Pattern     patternJSON       `json:"pattern"`     // Replace
	Content     string            `json:"content"`     // Replace
}

type splitterJSON struct {
	Type             string          `json:"type"`
	PreTokenizers    []*splitterJSON `json:"pretokenizers"`     // Sequence
	Pattern          patternJSON     `json:"pattern"`           // Split
	Behavior         string          `json:"behavior"`          // Split
	Invert           bool            `json:"invert"`            // Split
	AddPrefixSpace   *bool           `json:"add_prefix_space"`  // ByteLevel; absent: true
	UseRegex         *bool           `json:"use_regex"`         // ByteLevel; absent: true
	IndividualDigits bool            `json:"individual_digits"` // Digits
}

type patternJSON struct {
	String *string `json:"String"`
	Regex  *string `json:"Regex"`
}

type processorJSON struct {
	Type          string           `json:"type"`
	Processors    []*processorJSON `json:"processors"` // Sequence
	Single        []templateJSON   `json:"single"`     // TemplateProcessing
	SpecialTokens map[string]struct {
		IDs []int32 `json:"ids"`
	} `json:"special_tokens"`
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

type decoderJSON struct {
	Type     string         `json:"type"`
	Decoders []*decoderJSON `json:"decoders"` // Sequence
}

type modelJSON struct {
	Type                    string          `json:"type"`
	Dropout                 *float64        `json:"dropout"`
	UnkToken                *string         `json:"unk_token"`
	ContinuingSubwordPrefix string          `json:"continuing_subword_prefix"`
	EndOfWordSuffix         string          `json:"end_of_word_suffix"`
	FuseUnk                 bool            `json:"fuse_unk"`
	ByteFallback            bool            `json:"byte_fallback"`
	IgnoreMerges            bool            `json:"ignore_merges"`
	Vocab                   json.RawMessage `json:"vocab"`  // see parseVocab
	Merges                  json.RawMessage `json:"merges"` // see eachMerge
}

// Limits of a tokenizer.json. They bound the time and the memory of loading it and of encoding. The
// largest known files have 35 MB, 260,000 tokens and a few steps.
const (
	maxFileBytes      = 64 << 20
	maxVocab          = 1 << 20
	maxMerges         = 1 << 20
	maxTokenBytes     = 64 << 10 // of one token in vocab
	maxAddedTokens    = 100_000
	maxAddedBytes     = 1 << 10 // of one added token
	maxAddedTotal     = 2 << 20 // of all added tokens
	maxSteps          = 32      // of the normalizer, and of the pre_tokenizer
	maxObjects        = 500_000
	maxTemplateTokens = 256 // that the post_processor adds
)

// Parse parses a tokenizer.json. Its errors name the part that is invalid or not supported.
func Parse(data []byte) (*Tokenizer, error) {
	if len(data) > maxFileBytes {
		return nil, fmt.Errorf("tokenizer: tokenizer.json has %d bytes, the limit is %d", len(data),
			maxFileBytes)
	}
	// A part such as {} takes a hundred times its size in memory.
	if n := bytes.Count(data, []byte("{")); n > maxObjects {
		return nil, fmt.Errorf("tokenizer: tokenizer.json has %d opening braces, the limit is %d",
			n, maxObjects)
	}
	if !utf8.Valid(data) {
		return nil, errors.New("tokenizer: not a tokenizer.json: not valid UTF-8")
	}
	var file fileJSON
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, fmt.Errorf("tokenizer: not a tokenizer.json: %w", err)
	}
	t := &Tokenizer{faithful: true, gates: newGates()}
	steps := []struct {
		part  string
		build func(*fileJSON) error
	}{
		{"model", t.buildModel},
		{"normalizer", t.buildNormalizer},
		{"added_tokens", t.buildAdded},
		{"pre_tokenizer", t.buildSplitters},
		{"post_processor", t.buildProcessor},
		{"decoder", t.checkDecoder},
	}
	for _, s := range steps {
		if err := s.build(&file); err != nil {
			return nil, fmt.Errorf("tokenizer: %s: %w", s.part, err)
		}
	}
	t.model.measure(&t.pieces)
	t.longest = max(t.longest, t.model.longest)
	t.encoders = sync.Pool{New: func() any { return t.newEncoder() }}
	return t, nil
}
