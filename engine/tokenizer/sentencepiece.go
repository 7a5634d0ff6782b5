package tokenizer

// SentencePiece's tokenizer.model: a message of Protocol Buffers with the tokens, their scores and
// the settings of the normalizer. Source: https://github.com/google/sentencepiece,
// src/sentencepiece_model.proto

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"
)

// sentencePiece has the fields of a tokenizer.model that matter for encoding.
type sentencePiece struct {
	vocabulary
	modelType         uint64 // 1: Unigram, 2: BPE
	byteFallback      bool
	suffixSpaces      bool // spaces belong to the word before them
	bos, eos          int32
	charsMap          []byte
	dummyPrefix       bool // a space is put before the text
	removeExtraSpaces bool
	escapeSpaces      bool // spaces are written as ▁
	defined           map[defined]bool
}

// ParseSentencePiece parses a tokenizer.model. Its errors name the part that is invalid or not
// supported.
func ParseSentencePiece(data []byte) (*Tokenizer, error) {
	if len(data) > maxFileBytes {
		return nil, fmt.Errorf("tokenizer: tokenizer.model has %d bytes, the limit is %d",
			len(data), maxFileBytes)
	}
	s := &sentencePiece{modelType: 1, bos: 1, eos: 2, dummyPrefix: true, removeExtraSpaces: true,
		escapeSpaces: true, defined: map[defined]bool{}}
	if err := s.read(data); err != nil {
		return nil, fmt.Errorf("tokenizer: not a tokenizer.model: %w", err)
	}
	t, err := s.assemble()
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
	// The reference implementation refuses both, too.
	is := defined{token, tokenKind(kind) == unknownToken || tokenKind(kind) == controlToken ||
		tokenKind(kind) == byteTokenKind}
	if err == nil && (token == "" || s.defined[is]) {
		err = fmt.Errorf("token %d is empty or there twice: %q", len(s.tokens), token)
	}
	s.defined[is] = true
	if err != nil {
		return err
	}
	return s.add(token, float64(score), tokenKind(kind))
}

// defined is a token, and whether it stands for no text. Only tokens of different kinds may be
// equal.
type defined struct {
	token    string
	reserved bool
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

// assemble makes the tokenizer.
func (s *sentencePiece) assemble() (*Tokenizer, error) {
	if s.suffixSpaces {
		return nil, errors.New("tokenizer: treat_whitespace_as_suffix is not supported")
	}
	file := &fileJSON{AddedTokens: s.added()}
	var steps []*part
	if len(s.charsMap) > 0 {
		m, err := newCharsMap(s.charsMap)
		if err != nil {
			return nil, fmt.Errorf("tokenizer: %w", err)
		}
		steps = append(steps, &part{kind: "SentencePiece", code: m.normalizeLongest})
	}
	if s.removeExtraSpaces {
		steps = append(steps, &part{kind: "SentencePiece", code: removeExtraSpaces})
	}
	if s.dummyPrefix {
		steps = append(steps, partOf("Prepend", `{"prepend":" "}`))
	}
	var decoders []*part
	if s.escapeSpaces {
		steps = append(steps, partOf("Replace", `{"pattern":{"String":" "},"content":"▁"}`))
		if s.removeExtraSpaces {
			steps = append(steps, &part{kind: "SentencePiece", code: trimMetaspace})
		}
		decoders = append(decoders, partOf("Replace", `{"pattern":{"String":"▁"},"content":" "}`))
	}
	decoders = append(decoders, partOf("ByteFallback", "{}"), partOf("Fuse", "{}"))
	switch {
	case s.removeExtraSpaces:
		decoders = append(decoders, partOf("Strip", `{"content":" ","start":4294967295}`))
	case s.dummyPrefix:
		decoders = append(decoders, partOf("Strip", `{"content":" ","start":1}`))
	}
	if len(steps) > 0 {
		file.Normalizer = sequence(steps...)
	}
	file.Decoder = sequence(decoders...)
	return assemble(file, s.build)
}

// build sets vocab and model.
func (s *sentencePiece) build(t *Tokenizer, _ *fileJSON) error {
	switch s.modelType {
	case 1:
		return s.buildUnigram(t)
	case 2:
		return s.buildBPE(t)
	}
	return fmt.Errorf("model_type %d is not supported, expected 1 (Unigram) or 2 (BPE)",
		s.modelType)
}

func (s *sentencePiece) buildBPE(t *Tokenizer) error {
	s.setVocab(t)
	m := &bpe{cache: newWordCache()}
	t.model = m
	f := &modelJSON{ByteFallback: s.byteFallback, FuseUnk: true}
	if unknown := s.unknown(); unknown >= 0 {
		f.UnkToken = &s.tokens[unknown]
	}
	if err := m.alphabet.build(t, f); err != nil {
		return err
	}
	return s.setMerges(t, m)
}

func (s *sentencePiece) buildUnigram(t *Tokenizer) error {
	s.setVocab(t)
	lowest := math.Inf(1)
	for id, score := range s.scores {
		if s.kinds[id] == normalToken {
			lowest = min(lowest, score)
		}
	}
	return t.setUnigram(s.scores, lowest, s.unknown(), s.byteFallback,
		func(id int32) bool { return s.kinds[id] == normalToken })
}

// normalizeLongest replaces the longest match at each position, as SentencePiece does.
func (m *charsMap) normalizeLongest(e *encoder, s string) string {
	var b strings.Builder
	done, checkAt := 0, 0 // s[:done] is in b
	for i := 0; i < len(s); {
		if i >= checkAt {
			if checkAt += checkBytes; e.check() {
				return s
			}
		}
		text, size, ok := m.find(s[i:], true)
		if !ok {
			_, size = utf8.DecodeRuneInString(s[i:])
			i += size
			continue
		}
		if !e.grow(len(text) - size) {
			return s
		}
		b.WriteString(s[done:i])
		b.WriteString(text)
		i += size
		done = i
	}
	if done == 0 {
		return s
	}
	b.WriteString(s[done:])
	return b.String()
}

// removeExtraSpaces drops spaces at both ends, and all but one of several in a row.
func removeExtraSpaces(_ *encoder, s string) string {
	s = strings.Trim(s, " ")
	if !strings.Contains(s, "  ") {
		return s
	}
	var b strings.Builder
	for i := range len(s) {
		if s[i] != ' ' || s[i-1] != ' ' {
			b.WriteByte(s[i])
		}
	}
	return b.String()
}

// trimMetaspace drops spaces at the end that have been escaped.
func trimMetaspace(_ *encoder, s string) string {
	return strings.TrimRight(s, string(metaspace))
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
