package tokenizer

// The vocabulary in a GGUF file: keys that begin with "tokenizer.ggml." in its header. A GGUF file
// names the expressions that split text instead of having them; see gguf_patterns.go.
// Source: https://github.com/ggml-org/ggml, docs/gguf.md

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// Limits of the header of a GGUF file. The largest known ones have 30 MB.
const (
	maxHeaderBytes = 256 << 20
	maxHeaderKeys  = 65_536
	maxKeyBytes    = 65_535
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

// ParseGGUF reads the vocabulary from the beginning of a GGUF file. It reads no further than the
// header. Its errors name the part that is invalid or not supported.
func ParseGGUF(file io.Reader) (*Tokenizer, error) {
	v := &ggufVocabulary{bos: -1, eos: -1, separator: -1, class: -1}
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
	var before, after []int32
	add := func(ids *[]int32, id float64, wanted *bool, otherwise bool) error {
		if wanted != nil {
			otherwise = *wanted
		}
		if !otherwise || id < 0 {
			return nil
		}
		*ids = append(*ids, int32(id))
		return t.checkID("a special token", int32(id))
	}
	first, last := v.bos, v.eos
	if v.model == "bert" {
		first, last = v.class, v.separator
	}
	return errors.Join(add(&before, first, v.addBOS, v.model == "bert" || v.model == "llama"),
		add(&after, last, v.addEOS, v.model == "bert" || v.model == "t5"),
		t.surround(before, after))
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

// ggufReader reads a header.
type ggufReader struct {
	r    *bufio.Reader
	left int // bytes that may still be read
}

// read reads the keys of the vocabulary.
func (v *ggufVocabulary) read(file io.Reader) error {
	r := &ggufReader{bufio.NewReaderSize(file, 1<<16), maxHeaderBytes}
	magic, err := r.bytes(4)
	if err != nil || string(magic) != "GGUF" {
		return errors.Join(errors.New("it does not begin with GGUF"), err)
	}
	version, err := r.number(4)
	if err != nil || version < 2 || version > 3 {
		return errors.Join(fmt.Errorf("its version is %d, expected 2 or 3", version), err)
	}
	if _, err := r.number(8); err != nil { // tensors
		return err
	}
	keys, err := r.number(8)
	if err != nil || keys > maxHeaderKeys {
		return errors.Join(fmt.Errorf("it has %d keys, the limit is %d", keys, maxHeaderKeys), err)
	}
	for range keys {
		key, err := r.text(maxKeyBytes)
		if err != nil {
			return err
		}
		value, err := r.value(strings.HasPrefix(key, "tokenizer.ggml."))
		if err != nil {
			return fmt.Errorf("%.80s: %w", key, err)
		}
		v.set(strings.TrimPrefix(key, "tokenizer.ggml."), value)
	}
	return nil
}

// ggufValue is the value of a key: a text, a number or an array of either.
type ggufValue struct {
	text    string
	number  float64
	texts   []string
	numbers []float64
}

func (v *ggufVocabulary) set(key string, value ggufValue) {
	flag := value.number != 0
	switch key {
	case "model":
		v.model = value.text
	case "pre":
		v.pre = value.text
	case "tokens":
		v.tokens = value.texts
	case "merges":
		v.merges = value.texts
	case "scores":
		v.scores = value.numbers
	case "token_type":
		v.kinds = value.numbers
	case "precompiled_charsmap":
		v.charsMap = value.numbers
	case "bos_token_id":
		v.bos = value.number
	case "eos_token_id":
		v.eos = value.number
	case "seperator_token_id": // so it is spelled
		v.separator = value.number
	case "cls_token_id":
		v.class = value.number
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

func (r *ggufReader) bytes(n int) ([]byte, error) {
	if r.left -= n; n < 0 || r.left < 0 {
		return nil, fmt.Errorf("it has more than %d bytes", maxHeaderBytes)
	}
	out := make([]byte, n)
	_, err := io.ReadFull(r.r, out)
	return out, err
}

// number reads an unsigned integer of up to eight bytes.
func (r *ggufReader) number(size int) (uint64, error) {
	var b [8]byte
	if r.left -= size; r.left < 0 {
		return 0, fmt.Errorf("it has more than %d bytes", maxHeaderBytes)
	}
	_, err := io.ReadFull(r.r, b[:size])
	return binary.LittleEndian.Uint64(b[:]), err
}

func (r *ggufReader) text(limit uint64) (string, error) {
	size, err := r.number(8)
	if err != nil || size > limit {
		return "", errors.Join(fmt.Errorf("a text has %d bytes, the limit is %d", size, limit), err)
	}
	b, err := r.bytes(int(size))
	return string(b), err
}

// Types of values.
const (
	ggufFloat32, ggufString, ggufArray, ggufFloat64 = 6, 8, 9, 12

	maxTextBytes = 4 << 20 // such as a chat template
)

// ggufSizes has the bytes of the types of numbers, and 0 for others.
var ggufSizes = [13]int{1, 1, 2, 2, 4, 4, ggufFloat32: 4, 7: 1, 10: 8, 11: 8, ggufFloat64: 8}

// value reads the type of a value and the value. Arrays are kept if keep is true.
func (r *ggufReader) value(keep bool) (out ggufValue, err error) {
	kind, err := r.number(4)
	if err != nil {
		return out, err
	}
	switch kind {
	case ggufString:
		out.text, err = r.text(maxTextBytes)
		return out, err
	case ggufArray:
		return r.array(keep)
	}
	out.number, err = r.numberOf(kind)
	return out, err
}

func (r *ggufReader) array(keep bool) (out ggufValue, err error) {
	kind, err := r.number(4)
	if err != nil {
		return out, err
	}
	count, err := r.number(8)
	if err != nil || count > maxHeaderBytes || keep && count > 4*maxVocab {
		return out, errors.Join(fmt.Errorf("an array has %d values", count), err)
	}
	for range count {
		if kind == ggufString {
			text, err := r.text(maxTokenBytes)
			if err != nil {
				return out, err
			}
			if keep {
				out.texts = append(out.texts, text)
			}
			continue
		}
		number, err := r.numberOf(kind)
		if err != nil {
			return out, err
		}
		if keep {
			out.numbers = append(out.numbers, number)
		}
	}
	out.texts, out.numbers = slices.Clip(out.texts), slices.Clip(out.numbers)
	return out, nil
}

func (r *ggufReader) numberOf(kind uint64) (float64, error) {
	if kind >= uint64(len(ggufSizes)) || ggufSizes[kind] == 0 {
		return 0, fmt.Errorf("a value has the type %d", kind)
	}
	n, err := r.number(ggufSizes[kind])
	switch kind {
	case ggufFloat32:
		return float64(math.Float32frombits(uint32(n))), err
	case ggufFloat64:
		return math.Float64frombits(n), err
	case 1, 3, 5, 11: // signed
		shift := 64 - 8*ggufSizes[kind]
		return float64(int64(n<<shift) >> shift), err
	}
	return float64(n), err
}
