package tokenizer

// The models WordPiece, which BERT uses, and WordLevel.

import (
	"fmt"
	"unicode/utf8"
)

// wordPiece splits a word into the longest tokens, from left to right. Tokens that do not begin a
// word have a prefix.
type wordPiece struct {
	tokens       *trie
	continuation uint32 // the node after the prefix
	hasPrefixed  bool   // there is such a node
	unknownID    int32  // -1: none
	maxChars     int64  // a word with more characters is unknown
	cache        wordCache
}

// maxPieceBytes is the limit of a token of WordPiece or Unigram, because each position of a text
// may take a step for each byte of the longest token. The longest known one has 100 bytes.
const maxPieceBytes = 256

func (t *Tokenizer) buildWordPiece(f *modelJSON) error {
	if err := t.readVocab(f); err != nil {
		return err
	}
	prefix, unknown, maxChars := "##", "[UNK]", int64(100)
	if f.ContinuingSubwordPrefix != nil {
		prefix = *f.ContinuingSubwordPrefix
	}
	if f.UnkToken != nil {
		unknown = *f.UnkToken
	}
	if f.MaxInputCharsPerWord != nil {
		maxChars = *f.MaxInputCharsPerWord
	}
	id, ok := t.vocab[unknown]
	if !ok {
		id = -1
	}
	return t.setWordPiece(prefix, id, maxChars)
}

// setWordPiece sets the model; vocab has been set. unknown is -1 if there is no unknown token.
func (t *Tokenizer) setWordPiece(prefix string, unknown int32, maxChars int64) error {
	m := &wordPiece{unknownID: unknown, maxChars: maxChars, hasPrefixed: true,
		cache: newWordCache()}
	t.model = m
	entries := make([]entry, 0, len(t.vocab))
	for token, id := range t.vocab {
		if len(token) > maxPieceBytes {
			return fmt.Errorf("vocab: %.40q… has %d bytes, the limit is %d", token, len(token),
				maxPieceBytes)
		}
		entries = append(entries, entry{token, id})
	}
	m.tokens = newTrie(entries)
	for i := range len(prefix) {
		if m.continuation = m.tokens.step(m.continuation, prefix[i]); m.continuation == 0 {
			m.hasPrefixed = false
			break
		}
	}
	return nil
}

// measure says that nothing is known about the number of tokens, because a word of any length can
// be one unknown token.
func (m *wordPiece) measure(*Tokenizer) (longest int, faithful bool) { return 0, false }

func (m *wordPiece) encodeWord(e *encoder, word string) {
	if ids, ok := m.cache.get(word); ok {
		e.append(ids...)
		return
	}
	if len(word) > maxIncompleteBytes {
		e.fail(ErrWord)
		return
	}
	start := len(e.ids)
	if int64(utf8.RuneCountInString(word)) > m.maxChars || !m.split(e, word) {
		if e.ids = e.ids[:start]; e.err == nil {
			e.unknown(m.unknownID)
		}
	}
	if e.append(); e.err == nil {
		m.cache.put(word, e.ids[start:])
	}
}

// split appends the ids of word. It reports whether there is a token for each part.
func (m *wordPiece) split(e *encoder, word string) bool {
	checkAt := checkBytes
	for from := 0; from < len(word); {
		node, id, end := uint32(0), int32(-1), from
		if from > 0 {
			if node = m.continuation; !m.hasPrefixed {
				return false
			}
		}
		for i := from; i < len(word); i++ {
			if node = m.tokens.step(node, word[i]); node == 0 {
				break
			}
			if m.tokens.ids[node] >= 0 {
				id, end = m.tokens.ids[node], i+1
			}
		}
		if id < 0 {
			return false
		}
		e.ids = append(e.ids, id)
		if from = end; from >= checkAt {
			if checkAt += checkBytes; e.check() {
				return false
			}
		}
	}
	return true
}

// unknown appends the unknown token, or fails if the model has none.
func (e *encoder) unknown(id int32) {
	if id < 0 {
		e.fail(ErrUnknown)
		return
	}
	e.ids = append(e.ids, id)
}

// wordLevel has a token for each word.
type wordLevel struct{ unknownID int32 }

func (t *Tokenizer) buildWordLevel(f *modelJSON) error {
	if err := t.readVocab(f); err != nil {
		return err
	}
	m := &wordLevel{-1}
	t.model = m
	if id, ok := t.vocab[text(f.UnkToken)]; ok {
		m.unknownID = id
	}
	return nil
}

func (m *wordLevel) measure(*Tokenizer) (longest int, faithful bool) { return 0, false }

func (m *wordLevel) encodeWord(e *encoder, word string) {
	if len(word) <= maxTokenBytes {
		e.word = append(e.word[:0], word...)
		if id, ok := e.modelID(e.word); ok {
			e.append(id)
			return
		}
	}
	e.unknown(m.unknownID)
	e.append()
}
