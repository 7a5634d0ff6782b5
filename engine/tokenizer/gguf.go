package tokenizer

// The vocabulary in a GGUF file: keys that begin with "tokenizer.ggml." in its header. A GGUF file
// names the expressions that split text instead of having them; see gguf_patterns.go.
// Source: https://github.com/ggml-org/ggml, docs/gguf.md

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"headroom/engine/gguf"
)

// ggufVocabulary has the keys of a GGUF file that matter for encoding.
type ggufVocabulary struct {
	model, pre       string
	tokens, merges   []string
	scores           []float64
	kinds            []float64
	charsMap         []float64
	bos, eos         float64
	separator, class float64 // of BERT
	addBOS, addEOS   *bool
	spacePrefix      *bool
	removeSpaces     bool
}

func newGGUFVocabulary() *ggufVocabulary {
	return &ggufVocabulary{bos: -1, eos: -1, separator: -1, class: -1}
}

// ParseGGUF reads the vocabulary from the beginning of a GGUF file. It reads no further than the
// header. Its errors name the part that is invalid or not supported.
func ParseGGUF(file io.Reader) (*Tokenizer, error) {
	v := newGGUFVocabulary()
	if err := v.read(file); err != nil {
		return nil, fmt.Errorf("tokenizer: the header of the GGUF file: %w", err)
	}
	build, ok := ggufModels[v.model]
	if !ok {
		return nil, fmt.Errorf("tokenizer: tokenizer.ggml.model is %.40q, which is not supported",
			v.model)
	}
	list, err := v.vocabulary()
	if err != nil {
		return nil, fmt.Errorf("tokenizer: the vocabulary of the GGUF file: %w", err)
	}
	t, err := build(v, list)
	if err != nil {
		return nil, err
	}
	return t, v.surround(t)
}

// ggufModels has the kinds of vocabularies by their names.
var ggufModels = map[string]func(*ggufVocabulary, *vocabulary) (*Tokenizer, error){
	"bert":   (*ggufVocabulary).wordPiece,
	"gemma4": (*ggufVocabulary).gemma4,
	"gpt2":   (*ggufVocabulary).byteLevel,
	"llama":  (*ggufVocabulary).sentencePiece,
	"t5":     (*ggufVocabulary).sentencePiece,
}

// vocabulary returns the tokens.
func (v *ggufVocabulary) vocabulary() (*vocabulary, error) {
	if len(v.tokens) == 0 {
		return nil, errors.New("it has no tokens")
	}
	n := len(v.tokens)
	if v.scores != nil && len(v.scores) != n || v.kinds != nil && len(v.kinds) != n {
		return nil, fmt.Errorf("it has %d tokens, %d scores and %d types", n, len(v.scores),
			len(v.kinds))
	}
	list := &vocabulary{}
	for id, token := range v.tokens {
		score, kind := 0.0, normalToken
		if v.scores != nil {
			score = v.scores[id]
		}
		if v.kinds != nil {
			kind = tokenKind(v.kinds[id])
		}
		if kind < normalToken || kind > byteTokenKind || math.IsNaN(score) {
			return nil, fmt.Errorf("token %d has type %d and score %g", id, kind, score)
		}
		if err := list.add(token, score, kind); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// surround sets the special tokens before and after a text.
func (v *ggufVocabulary) surround(t *Tokenizer) error {
	before, after := v.edges()
	for _, id := range slices.Concat(before, after) {
		if err := t.checkID("a special token", id); err != nil {
			return err
		}
	}
	return t.surround(before, after)
}

// edges returns the special tokens before and after a text.
func (v *ggufVocabulary) edges() (before, after []int32) {
	add := func(ids *[]int32, id float64, wanted *bool, otherwise bool) {
		if wanted != nil {
			otherwise = *wanted
		}
		if otherwise && id >= 0 && id <= math.MaxInt32 {
			*ids = append(*ids, int32(id))
		}
	}
	first, last := v.bos, v.eos
	if v.model == "bert" {
		first, last = v.class, v.separator
	}
	begins := v.model == "bert" || v.model == "llama" ||
		v.model == "gpt2" && ggufPatterns[v.pre].addBOS
	add(&before, first, v.addBOS, begins)
	add(&after, last, v.addEOS, v.model == "bert" || v.model == "t5")
	return before, after
}

// byteLevel makes a tokenizer of byte-level BPE.
func (v *ggufVocabulary) byteLevel(list *vocabulary) (*Tokenizer, error) {
	pre, ok := ggufPatterns[v.pre]
	if !ok {
		return nil, fmt.Errorf("tokenizer: tokenizer.ggml.pre is %.40q, which is not supported",
			v.pre)
	}
	file := byteLevelFile(list.added(), pre.patterns...)
	if pre.nfc {
		file.Normalizer = partOf("NFC", "{}")
	}
	return v.assembleMerges(file, list, pre.ignoreMerges)
}

// gemma4 makes a tokenizer of BPE with byte fallback, whose words are lines.
func (v *ggufVocabulary) gemma4(list *vocabulary) (*Tokenizer, error) {
	file := &fileJSON{AddedTokens: list.added(),
		Normalizer: partOf("Replace", `{"pattern":{"String":" "},"content":"▁"}`),
		PreTokenizer: partOf("Split",
			`{"pattern":{"Regex":"[^\\n]+|[\\n]+"},"behavior":"Isolated"}`),
		Decoder: sequence(partOf("Replace", `{"pattern":{"String":"▁"},"content":" "}`),
			partOf("ByteFallback", "{}"), partOf("Fuse", "{}")),
		Model: modelJSON{ByteFallback: true, FuseUnk: true}}
	if unknown := list.unknown(); unknown >= 0 {
		file.Model.UnkToken = &list.tokens[unknown]
	}
	return v.assembleMerges(file, list, false)
}

// assembleMerges makes a tokenizer with the file's merges.
func (v *ggufVocabulary) assembleMerges(file *fileJSON, list *vocabulary,
	ignoreMerges bool) (*Tokenizer, error) {
	return assemble(file, func(t *Tokenizer, _ *fileJSON) error {
		list.setVocab(t)
		m := &bpe{ignoreMerges: ignoreMerges, cache: newWordCache()}
		t.model = m
		if err := m.alphabet.build(t, &file.Model); err != nil {
			return err
		}
		m.merges = make(map[uint64]merged, len(v.merges))
		for rank, merge := range v.merges {
			at := strings.Index(merge[min(1, len(merge)):], " ") + 1
			if at == 0 {
				return fmt.Errorf("merge %d is %.40q, expected two tokens", rank, merge)
			}
			left, ok1 := t.vocab[merge[:at]]
			right, ok2 := t.vocab[merge[at+1:]]
			id, ok3 := t.vocab[merge[:at]+merge[at+1:]]
			if ok1 && ok2 && ok3 {
				m.merges[pairKey(left, right)] = merged{int32(rank), id}
			}
		}
		return nil
	})
}

// sentencePiece makes a tokenizer like that of a tokenizer.model.
func (v *ggufVocabulary) sentencePiece(list *vocabulary) (*Tokenizer, error) {
	s := &sentencePiece{vocabulary: *list, modelType: bpeModel, byteFallback: true,
		dummyPrefix:  true,
		escapeSpaces: true}
	if v.model == "t5" {
		s.modelType, s.byteFallback, s.removeExtraSpaces = unigramModel, false, v.removeSpaces
	}
	if v.spacePrefix != nil {
		s.dummyPrefix = *v.spacePrefix
	}
	for _, b := range v.charsMap {
		s.charsMap = append(s.charsMap, byte(int(b)))
	}
	return s.assemble(&Config{}, 0)
}

// wordPiece makes a tokenizer of BERT. In GGUF, tokens that begin a word begin with ▁ instead of
// the others with ##.
func (v *ggufVocabulary) wordPiece(list *vocabulary) (*Tokenizer, error) {
	unknown := list.unknown()
	for id, token := range list.tokens {
		word, begins := strings.CutPrefix(token, string(metaspace))
		switch {
		case begins:
			list.tokens[id] = word
		case list.kinds[id] == normalToken && !strings.HasPrefix(token, "["):
			list.tokens[id] = "##" + token
		case token == "[UNK]":
			unknown = int32(id)
		}
	}
	file := &fileJSON{AddedTokens: list.added(),
		Normalizer:   partOf("BertNormalizer", bertJSON),
		PreTokenizer: partOf("BertPreTokenizer", "{}"),
		Decoder:      partOf("WordPiece", "{}")}
	return assemble(file, func(t *Tokenizer, _ *fileJSON) error {
		list.setVocab(t)
		if unknown < 0 {
			return errors.New("it has no unknown token")
		}
		t.vocab[list.tokens[unknown]] = unknown
		return t.setWordPiece("##", unknown, 100)
	})
}

const bertJSON = `{"clean_text":true,"handle_chinese_chars":true,"lowercase":true}`

// read reads the keys of the vocabulary.
func (v *ggufVocabulary) read(file io.Reader) error {
	h, err := gguf.ReadHeader(file, func(key string) bool {
		return strings.HasPrefix(key, ggufPrefix)
	})
	if err != nil {
		return err
	}
	v.setAll(h.Metadata)
	return nil
}

// ggufPrefix begins the keys of the vocabulary.
const ggufPrefix = "tokenizer.ggml."

// setAll sets what metadata has of the vocabulary.
func (v *ggufVocabulary) setAll(m gguf.Metadata) {
	for key, value := range m {
		if name, ok := strings.CutPrefix(key, ggufPrefix); ok {
			v.set(name, value)
		}
	}
}

func (v *ggufVocabulary) set(key string, value gguf.Value) {
	flag := value.Number != 0
	switch key {
	case "model":
		v.model = value.Text
	case "pre":
		v.pre = value.Text
	case "tokens":
		v.tokens = value.Texts
	case "merges":
		v.merges = value.Texts
	case "scores":
		v.scores = value.Numbers
	case "token_type":
		v.kinds = value.Numbers
	case "precompiled_charsmap":
		v.charsMap = value.Numbers
	case "bos_token_id":
		v.bos = value.Number
	case "eos_token_id":
		v.eos = value.Number
	case "seperator_token_id": // so it is spelled
		v.separator = value.Number
	case "cls_token_id":
		v.class = value.Number
	case "add_bos_token":
		v.addBOS = &flag
	case "add_eos_token":
		v.addEOS = &flag
	case "add_space_prefix":
		v.spacePrefix = &flag
	case "remove_extra_whitespaces":
		v.removeSpaces = flag
	}
}
