package tokenizer

// The schema of tokenizer.json, and Parse, which builds the pipeline from it. Each kind of part is
// one row of a table: normalizerKinds, splitterKinds, modelKinds, processorKinds or decoderKinds.
// If the file uses a kind that has no row, Parse returns an error. Only truncation and padding are
// ignored.

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"unicode/utf8"
)

// fileJSON is a tokenizer.json.
type fileJSON struct {
	AddedTokens   []addedToken `json:"added_tokens"`
	Normalizer    *part        `json:"normalizer"`
	PreTokenizer  *part        `json:"pre_tokenizer"`
	PostProcessor *part        `json:"post_processor"`
	Decoder       *part        `json:"decoder"`
	Model         modelJSON    `json:"model"`

	// What tokenizer_config.json adds, and the limit of ids for it; see Config.apply.
	config *Config
	limit  int
}

// part is a normalizer, pre_tokenizer, post_processor or decoder. Its other fields depend on kind.
type part struct {
	kind string // the field "type"
	json []byte

	// Parts that tokenizer.json does not have, see sentencepiece.go.
	normalize normalizeStep
	faithful  bool // normalize drops no text
	decode    decoderStep

	inner []*part // the parts of a Sequence that is not read from JSON
}

// sequence returns a Sequence of parts.
func sequence(parts ...*part) *part { return &part{kind: "Sequence", inner: parts} }

func (p *part) UnmarshalJSON(data []byte) error {
	if len(data) > maxPartBytes {
		return fmt.Errorf("a part has %d bytes, the limit is %d", len(data), maxPartBytes)
	}
	var head struct {
		Type string `json:"type"`
	}
	err := json.Unmarshal(data, &head)
	p.kind, p.json = head.Type, bytes.Clone(data)
	return err
}

// read reads the fields of the part.
func (p *part) read(fields any) error { return json.Unmarshal(p.json, fields) }

// flatten returns the parts of p in order: those in it if it is a Sequence, otherwise p alone.
// field is the name of the field of a Sequence.
func (p *part) flatten(field string) ([]*part, error) {
	var out []*part
	visited := 0
	var visit func(p *part) error
	visit = func(p *part) error {
		if visited++; visited > maxSteps {
			return fmt.Errorf("it has more than %d steps", maxSteps)
		}
		if p == nil || p.kind != "Sequence" {
			out = append(out, p)
			return nil
		}
		parts := p.inner
		if parts == nil {
			var fields map[string]json.RawMessage
			if err := p.read(&fields); err != nil {
				return err
			}
			if err := json.Unmarshal(fields[field], &parts); err != nil {
				return fmt.Errorf("%s: %w", field, err)
			}
		}
		for _, inner := range parts {
			if inner == nil {
				return fmt.Errorf("%s has null for a part", field)
			}
			if err := visit(inner); err != nil {
				return err
			}
		}
		return nil
	}
	if p == nil {
		return nil, nil
	}
	return out, visit(p)
}

// patternJSON is the pattern of a Split or Replace. Exactly one of its fields is set.
type patternJSON struct {
	String *string `json:"String"`
	Regex  *string `json:"Regex"`
}

// modelJSON is a model. The comment after a field lists the kinds that have it, if not all do.
type modelJSON struct {
	Type                    string          `json:"type"`
	Vocab                   json.RawMessage `json:"vocab"`                     // see parseVocab
	Merges                  json.RawMessage `json:"merges"`                    // BPE; see eachMerge
	Dropout                 *float64        `json:"dropout"`                   // BPE
	UnkToken                *string         `json:"unk_token"`                 // not Unigram
	ContinuingSubwordPrefix *string         `json:"continuing_subword_prefix"` // BPE, WordPiece
	EndOfWordSuffix         *string         `json:"end_of_word_suffix"`        // BPE
	FuseUnk                 bool            `json:"fuse_unk"`                  // BPE
	ByteFallback            bool            `json:"byte_fallback"`             // BPE, Unigram
	IgnoreMerges            bool            `json:"ignore_merges"`             // BPE
	UnkID                   *int64          `json:"unk_id"`                    // Unigram
	MaxInputCharsPerWord    *int64          `json:"max_input_chars_per_word"`  // WordPiece
}

// Limits of a tokenizer.json. They bound the time and the memory of loading it and of encoding. The
// largest known files have 35 MB, 260,000 tokens and a few steps.
const (
	maxFileBytes      = 64 << 20
	maxPartBytes      = 4 << 20 // of a part other than the model; the largest have a charsmap
	maxVocab          = 1 << 20
	maxMerges         = 1 << 20
	maxTokenBytes     = 64 << 10 // of one token in vocab
	maxAddedTokens    = 100_000
	maxAddedBytes     = 1 << 10 // of one added token
	maxAddedTotal     = 2 << 20 // of all added tokens
	maxSteps          = 32      // of the normalizer, of the pre_tokenizer, and so on
	maxObjects        = 500_000
	maxTemplateTokens = 256 // that the post_processor adds
)

// Parse parses a tokenizer.json. Its errors name the part that is invalid or not supported.
func Parse(data []byte) (*Tokenizer, error) { return ParseWithConfig(data, &Config{}, 0) }

// ParseWithConfig is like Parse, for a model with a tokenizer_config.json. vocabSize is the number
// of tokens that the model has; 0: not known.
func ParseWithConfig(data []byte, config *Config, vocabSize int) (*Tokenizer, error) {
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
	file.config, file.limit = config, vocabSize
	return assemble(&file, (*Tokenizer).buildModel)
}

// assemble makes a tokenizer of its parts. build sets vocab and model.
func assemble(file *fileJSON, build func(*Tokenizer, *fileJSON) error) (*Tokenizer, error) {
	t := &Tokenizer{faithful: true, gates: newGates()}
	splitters, err := file.PreTokenizer.flatten("pretokenizers")
	if err != nil {
		return nil, fmt.Errorf("tokenizer: pre_tokenizer: %w", err)
	}
	t.byteLevel = file.isByteLevel(splitters)
	steps := []struct {
		part  string
		build func(*fileJSON) error
	}{
		{"model", func(f *fileJSON) error { return build(t, f) }},
		{"normalizer", t.buildNormalizer},
		{"added_tokens", t.buildAdded},
		{"pre_tokenizer", func(*fileJSON) error { return t.buildSplitters(splitters) }},
		{"post_processor", t.buildProcessor},
		{"decoder", t.buildDecoder},
	}
	for _, s := range steps {
		if err := s.build(file); err != nil {
			return nil, fmt.Errorf("tokenizer: %s: %w", s.part, err)
		}
	}
	t.finish()
	return t, nil
}

// finish completes a tokenizer whose parts have been set.
func (t *Tokenizer) finish() {
	longest, faithful := t.model.measure(t)
	t.longest, t.faithful = max(t.longest, longest), t.faithful && faithful
	t.encoders = sync.Pool{New: func() any { return t.newEncoder() }}
}

// isByteLevel reports whether the pipeline is that of byte-level BPE: words are spelled in the
// byte-level alphabet between the pre_tokenizer and the model, and nowhere else. Then this package
// does not spell them, but merges bytes.
func (f *fileJSON) isByteLevel(splitters []*part) bool {
	m := &f.Model
	if m.Type != "BPE" && m.Type != "" || text(m.ContinuingSubwordPrefix) != "" ||
		text(m.EndOfWordSuffix) != "" {
		return false
	}
	last := len(splitters) - 1
	for i, p := range splitters {
		if (p.kind == "ByteLevel") != (i == last) {
			return false
		}
	}
	normalizers, err1 := f.Normalizer.flatten("normalizers")
	decoders, err2 := f.Decoder.flatten("decoders")
	if last < 0 || err1 != nil || err2 != nil {
		return false
	}
	for _, p := range normalizers {
		if p.kind == "ByteLevel" {
			return false
		}
	}
	// Some files of byte-level models have no decoder.
	return f.Decoder == nil || len(decoders) == 1 && decoders[0].kind == "ByteLevel"
}

// text returns the string at s, or "".
func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
