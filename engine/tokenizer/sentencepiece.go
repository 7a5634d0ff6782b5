package tokenizer

// SentencePiece's tokenizer.model: a message of Protocol Buffers with the tokens, their scores and
// the settings of the normalizer. Source: https://github.com/google/sentencepiece,
// src/sentencepiece_model.proto

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// sentencePiece has the fields of a tokenizer.model that matter for encoding.
type sentencePiece struct {
	vocabulary
	modelType         uint64
	byteFallback      bool
	suffixSpaces      bool // spaces belong to the word before them
	bos, eos          int32
	charsMap          []byte
	dummyPrefix       bool // a space is put before the text, or after it with suffixSpaces
	removeExtraSpaces bool
	escapeSpaces      bool // spaces are written as ▁
	denormalizes      bool // decoded text is normalized too
}

// Values of modelType.
const (
	unigramModel = 1
	bpeModel     = 2
)

// ParseSentencePiece parses a tokenizer.model. Its errors name the part that is invalid or not
// supported. Of config, it adds the tokens that the file does not have. vocabSize is the number of
// tokens that the model has; 0: not known.
func ParseSentencePiece(data []byte, config *Config, vocabSize int) (*Tokenizer, error) {
	if len(data) > maxFileBytes {
		return nil, fmt.Errorf("tokenizer: tokenizer.model has %d bytes, the limit is %d",
			len(data), maxFileBytes)
	}
	s := &sentencePiece{modelType: unigramModel, bos: 1, eos: 2, dummyPrefix: true,
		removeExtraSpaces: true,
		escapeSpaces:      true}
	err := s.read(data)
	if err == nil {
		err = s.check()
	}
	if err != nil {
		return nil, fmt.Errorf("tokenizer: not a tokenizer.model: %w", err)
	}
	t, err := s.assemble(config.without(s.tokens), vocabSize)
	if err != nil {
		return nil, err
	}
	if s.bos >= 0 && int(s.bos) < len(s.tokens) && s.kinds[s.bos] == controlToken &&
		t.vocab[s.tokens[s.bos]] == s.bos {
		t.prefix = []int32{s.bos}
	}
	return t, nil
}

func (s *sentencePiece) read(data []byte) error {
	err := eachField(data, func(f field) error {
		switch f.number {
		case 1:
			return s.readToken(f.bytes)
		case 2:
			return s.readTrainer(f.bytes)
		case 3:
			return s.readNormalizer(f.bytes)
		case 5:
			return s.readDenormalizer(f.bytes)
		}
		return nil
	})
	if err == nil && len(s.tokens) == 0 {
		err = errors.New("it has no tokens")
	}
	return err
}

func (s *sentencePiece) readToken(data []byte) error {
	token, score, kind := "", float32(0), uint64(normalToken)
	err := eachField(data, func(f field) error {
		switch f.number {
		case 1:
			token = string(f.bytes)
		case 2:
			score = math.Float32frombits(uint32(f.value))
		case 3:
			kind = f.value
		}
		return nil
	})
	if err == nil && (kind < uint64(normalToken) || kind > uint64(byteTokenKind) ||
		score != score) {
		err = fmt.Errorf("token %d has type %d and score %g", len(s.tokens), kind, score)
	}
	if err == nil && (token == "" || strings.Contains(token, "\x00")) {
		err = fmt.Errorf("token %d is empty or has a zero byte: %q", len(s.tokens), token)
	}
	if err != nil {
		return err
	}
	return s.add(token, float64(score), tokenKind(kind))
}

// spelling is how a token is spelled, and whether it is reserved: not found in text by that.
type spelling struct {
	token    string
	reserved bool
}

// check refuses vocabularies that the reference implementation refuses. Only in Unigram, a reserved
// token and one that is not may be spelled alike.
func (s *sentencePiece) check() error {
	unknown, bytes, seen := 0, map[byte]bool{}, map[spelling]bool{}
	for id, kind := range s.kinds {
		reserved := kind == unknownToken || kind == controlToken || kind == byteTokenKind
		as := spelling{s.tokens[id], reserved && s.modelType == unigramModel}
		if seen[as] {
			return fmt.Errorf("token %d is there twice: %q", id, as.token)
		}
		seen[as] = true
		switch kind {
		case unknownToken:
			unknown++
		case byteTokenKind:
			b, ok := byteToken([]byte(s.tokens[id]))
			if !ok || !s.byteFallback || fmt.Sprintf("<0x%02X>", b) != s.tokens[id] {
				return fmt.Errorf("token %d is the byte %q, byte_fallback is %t", id, s.tokens[id],
					s.byteFallback)
			}
			bytes[b] = true
		}
	}
	switch {
	case unknown != 1:
		return fmt.Errorf("it has %d unknown tokens, expected 1", unknown)
	case s.byteFallback && len(bytes) < 256:
		return fmt.Errorf("it has tokens for %d bytes, expected 256", len(bytes))
	case s.denormalizes:
		return errors.New("denormalizer_spec is not supported")
	}
	return nil
}

func (s *sentencePiece) readTrainer(data []byte) error {
	return eachField(data, func(f field) error {
		switch f.number {
		case 3:
			s.modelType = f.value
		case 24:
			s.suffixSpaces = f.value != 0
		case 35:
			s.byteFallback = f.value != 0
		case 41:
			s.bos = int32(f.value)
		case 42:
			s.eos = int32(f.value)
		}
		return nil
	})
}

func (s *sentencePiece) readNormalizer(data []byte) error {
	return eachField(data, func(f field) error {
		switch f.number {
		case 2:
			s.charsMap = f.bytes
		case 3:
			s.dummyPrefix = f.value != 0
		case 4:
			s.removeExtraSpaces = f.value != 0
		case 5:
			s.escapeSpaces = f.value != 0
		}
		return nil
	})
}

func (s *sentencePiece) readDenormalizer(data []byte) error {
	return eachField(data, func(f field) error {
		s.denormalizes = s.denormalizes || f.number == 2 && len(f.bytes) > 0
		return nil
	})
}

// assemble makes the tokenizer. config has only tokens that the file does not have.
func (s *sentencePiece) assemble(config *Config, vocabSize int) (*Tokenizer, error) {
	n := &pieceNormalizer{dummy: s.dummyPrefix, suffix: s.suffixSpaces,
		squeeze: s.removeExtraSpaces, space: " "}
	if s.escapeSpaces {
		n.space = string(metaspace)
	}
	if len(s.charsMap) > 0 {
		var err error
		if n.chars, err = newCharsMap(s.charsMap); err != nil {
			return nil, fmt.Errorf("tokenizer: %w", err)
		}
	}
	added := s.added()
	if err := checkAdded(added); err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	file := &fileJSON{AddedTokens: added, config: config, limit: vocabSize}
	if s.modelType == unigramModel { // it finds user-defined symbols by their scores
		n.symbols, file.AddedTokens = &addedTokens{}, nil
		for _, token := range added {
			if token.Special {
				file.AddedTokens = append(file.AddedTokens, token)
			} else {
				n.symbols.add(token.Content, token)
			}
		}
		n.symbols.link()
	}
	file.Normalizer = &part{kind: "SentencePiece", normalize: n.normalize,
		faithful: n.chars == nil && !n.squeeze}
	file.Decoder = &part{kind: "SentencePiece", decode: func(next decodeStage) decodeStage {
		return &pieceDecoder{next: next, dummy: s.dummyPrefix, squeeze: s.removeExtraSpaces}
	}}
	return assemble(file, func(t *Tokenizer, _ *fileJSON) error {
		if n.symbols == nil {
			n.symbols = &t.normalized
		}
		return s.build(t)
	})
}

// build sets vocab and model.
func (s *sentencePiece) build(t *Tokenizer) error {
	s.setVocab(t)
	t.byteTokens = map[int32]byte{}
	special := map[string]bool{}
	for id, token := range s.tokens {
		b, ok := byteToken([]byte(token))
		switch {
		case s.kinds[id] == controlToken || s.kinds[id] == unknownToken:
			special[token] = true
		case s.kinds[id] == byteTokenKind && ok:
			t.byteTokens[int32(id)] = b
		case s.kinds[id] == userToken && s.modelType == unigramModel:
			if _, twice := t.vocab[token]; twice {
				t.duplicates = append(t.duplicates, entry{token, int32(id)})
			} else {
				t.vocab[token] = int32(id)
			}
		}
	}
	for token := range special { // of tokens that are spelled alike, the name is that of this one
		if id, ok := t.vocab[token]; ok && s.kinds[id] != unknownToken {
			t.duplicates = append(t.duplicates, entry{token, id})
			delete(t.vocab, token)
		}
	}
	switch s.modelType {
	case unigramModel:
		return s.buildUnigram(t)
	case bpeModel:
		return s.buildBPE(t)
	}
	return fmt.Errorf("model_type %d is not supported, expected 1 (Unigram) or 2 (BPE)",
		s.modelType)
}

// buildUnigram sets the model. As in the reference implementation since version 0.2.2, the score of
// a user-defined symbol is a tenth for each byte after the first. Log-probabilities are negative,
// so the symbols win, and among them those that cover more of the text.
func (s *sentencePiece) buildUnigram(t *Tokenizer) error {
	lowest := float32(math.MaxFloat32)
	scores := slices.Clone(s.scores)
	var entries []entry
	for id, token := range s.tokens {
		switch s.kinds[id] {
		case normalToken:
			lowest = min(lowest, float32(scores[id]))
		case userToken:
			scores[id] = float64(float32(0.1 * float64(len(token)-1)))
		default:
			continue
		}
		entries = append(entries, entry{token, int32(id)})
	}
	err := t.setUnigram(entries, scores, float64(lowest), s.unknown(), s.byteFallback)
	if err != nil {
		return err
	}
	m := t.model.(*unigram)
	m.pieces, m.unknown = true, float64(lowest-unknownPenalty)
	m.byteID = idsOfBytes(t.byteTokens)
	m.allBytes = !slices.Contains(m.byteID[:], -1)
	return nil
}

// field is a field of a message of Protocol Buffers. bytes is set for strings and messages, value
// for numbers.
type field struct {
	number uint64
	value  uint64
	bytes  []byte
}

// eachField calls read for each field of a message. The bytes of a field point into data.
// Source: https://protobuf.dev/programming-guides/encoding/
func eachField(data []byte, read func(field) error) error {
	for len(data) > 0 {
		tag, n := binary.Uvarint(data)
		if n <= 0 {
			return errors.New("a field has no number")
		}
		data = data[n:]
		f := field{number: tag >> 3}
		switch tag & 7 {
		case 0:
			if f.value, n = binary.Uvarint(data); n <= 0 {
				return fmt.Errorf("field %d is cut off", f.number)
			}
		case 1:
			if n = 8; len(data) >= n {
				f.value = binary.LittleEndian.Uint64(data)
			}
		case 2:
			size, m := binary.Uvarint(data)
			if m <= 0 || size > uint64(len(data)-m) {
				return fmt.Errorf("field %d has %d bytes, but %d follow", f.number, size,
					len(data))
			}
			n = m + int(size)
			f.bytes = data[m:n:n]
		case 5:
			if n = 4; len(data) >= n {
				f.value = uint64(binary.LittleEndian.Uint32(data))
			}
		default:
			return fmt.Errorf("field %d has the wire type %d", f.number, tag&7)
		}
		if n > len(data) {
			return fmt.Errorf("field %d is cut off", f.number)
		}
		data = data[n:]
		if err := read(f); err != nil {
			return err
		}
	}
	return nil
}
