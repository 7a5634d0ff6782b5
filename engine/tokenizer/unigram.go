package tokenizer

// The model Unigram, which SentencePiece uses. Each token has a score, and a word is split into the
// tokens with the highest sum of scores. One pass over the word finds them (Viterbi).

import (
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"
)

// unigram is the model Unigram of tokenizer.json; see modelJSON.
type unigram struct {
	tokens    *trie
	scores    []float64 // by id
	unknownID int32     // -1: none
	unknown   float64   // the score of a character without a token
	byteID    [256]int32
	hasBytes  bool // unknown text becomes bytes, if all of them have ids
	allBytes  bool // all of them have ids
	entries   []entry
	longest   int
	pieces    bool // as in SentencePiece; see rounded and endUnknown
	pairs     pairTable
	cache     wordCache
}

// unknownPenalty is what an unknown character costs beside the worst token.
const unknownPenalty = 10

// step is the best way to a position of a word: the token that ends there.
type step struct {
	score float64
	id    int32
	size  int32 // bytes of the token; 0: no token ends here
}

func (t *Tokenizer) buildUnigram(f *modelJSON) error {
	tokens, scores, err := parseScores(f.Vocab)
	if err != nil {
		return fmt.Errorf("vocab: %w", err)
	}
	if len(tokens) == 0 {
		return errors.New("vocab is empty")
	}
	unknown := int32(-1)
	if f.UnkID != nil {
		if *f.UnkID < 0 || *f.UnkID >= int64(len(tokens)) {
			return fmt.Errorf("unk_id is %d, vocab has %d tokens", *f.UnkID, len(tokens))
		}
		unknown = int32(*f.UnkID)
	}
	t.vocab = make(map[string]int32, len(tokens))
	entries := make([]entry, 0, len(tokens))
	for id, token := range tokens {
		if old, twice := t.vocab[token]; twice {
			t.duplicates = append(t.duplicates, entry{token, old})
		}
		t.vocab[token] = int32(id)
		if token != "" {
			entries = append(entries, entry{token, int32(id)})
		}
	}
	return t.setUnigram(entries, scores, slices.Min(scores), unknown, f.ByteFallback)
}

// setUnigram sets the model. entries are the tokens that are made from text, scores are indexed by
// id, and lowest is the lowest one. vocab has been set.
func (t *Tokenizer) setUnigram(entries []entry, scores []float64, lowest float64, unknown int32,
	byteFallback bool) error {
	m := &unigram{scores: scores, unknownID: unknown, hasBytes: byteFallback, allBytes: true,
		entries: entries, cache: newWordCache()}
	t.model = m
	for _, e := range entries {
		if len(e.token) > maxPieceBytes {
			return fmt.Errorf("vocab: %.40q… has %d bytes, the limit is %d", e.token, len(e.token),
				maxPieceBytes)
		}
	}
	m.tokens, m.unknown = newTrie(entries), lowest-unknownPenalty
	for b := range m.byteID {
		id, ok := t.vocab[fmt.Sprintf("<0x%02X>", b)]
		if !ok {
			id, m.allBytes = -1, false
		}
		m.byteID[b] = id
	}
	return nil
}

// measure also removes the special tokens, so that a text with one that a Shield has hidden is
// split into other tokens. Where none is hidden, they have been found before.
func (m *unigram) measure(t *Tokenizer) (longest int, faithful bool) {
	for i := range t.special.tokens {
		m.tokens.remove(t.special.tokens[i].Content, t.pieces.special)
	}
	m.longest = m.pairs.fill(func(yield func(string) bool) {
		for _, e := range m.entries {
			if !yield(e.token) {
				return
			}
		}
	})
	m.entries = nil
	return m.longest, m.hasBytes && m.allBytes
}

// encodeWord appends the ids of word. Where no token spans two characters, every way goes through
// the position between them. So the parts between such positions are searched one after another,
// with the sum of scores so far: rounding then is that of one search.
func (m *unigram) encodeWord(e *encoder, word string) {
	if ids, ok := m.cache.get(word); ok {
		e.append(ids...)
		return
	}
	if len(word) > longWordBytes && m.hasBytes && m.allBytes && m.pairs.tooMany(e, word) {
		return
	}
	start := len(e.ids)
	e.unknownFrom = -1
	sum, from, checkAt, last := 0.0, 0, checkBytes, rune(-1)
	for i, r := range word {
		if i > 0 && *m.pairs.at(last, r) == 0 {
			sum = m.part(e, word, from, i, sum)
			if from = i; e.err != nil {
				return
			}
			if i >= checkAt {
				if checkAt += checkBytes; e.check() || e.append() {
					return
				}
			}
		}
		last = r
	}
	m.part(e, word, from, len(word), sum)
	if e.err == nil {
		m.endUnknown(e, word, len(word))
	}
	if e.append(); e.err == nil {
		m.cache.put(word, e.ids[start:])
	}
}

// part appends the ids of word[from:to]. sum is the score of the word before it; the result is that
// of both. Unknown text at the end is left to the next part.
func (m *unigram) part(e *encoder, word string, from, to int, sum float64) float64 {
	if to-from > maxIncompleteBytes {
		e.fail(ErrWord)
		return 0
	}
	size := to - from
	if cap(e.steps) <= size {
		e.steps = make([]step, max(size+1, 256))
	}
	steps := e.steps[:size+1]
	clear(steps)
	steps[0].score = sum
	for i := 0; i < size; {
		_, width := utf8.DecodeRuneInString(word[from+i:])
		m.extend(e, steps, word[from:to], i, width)
		if i&^(checkBytes-1) != (i+width)&^(checkBytes-1) && e.check() {
			return 0
		}
		if e.err != nil {
			return 0
		}
		i += width
	}
	e.path = e.path[:0] // the ends of the tokens, the last first
	for end := size; end > 0; end -= int(steps[end].size) {
		e.path = append(e.path, int32(end))
	}
	at := from
	for i := len(e.path) - 1; i >= 0; i-- {
		if id := steps[e.path[i]].id; id != m.unknownID {
			m.endUnknown(e, word, at)
			e.ids = append(e.ids, id)
		} else if e.unknownFrom < 0 {
			e.unknownFrom = at
		}
		at = from + int(e.path[i])
	}
	return steps[size].score
}

// extend updates the steps that begin at part[i:], whose first character has width bytes.
func (m *unigram) extend(e *encoder, steps []step, part string, i, width int) {
	here, single := steps[i].score, false
	node := uint32(0)
	for j := i; j < len(part); {
		if node = m.tokens.step(node, part[j]); node == 0 {
			break
		}
		j++
		id := m.tokens.ids[node]
		if id < 0 {
			continue
		}
		single = single || j == i+width
		score := m.rounded(m.scores[id] + here)
		if s := &steps[j]; s.size == 0 || score > s.score {
			*s = step{score, id, int32(j - i)}
		}
	}
	if single {
		return
	}
	unknown := m.rounded(m.unknown + here)
	if s := &steps[i+width]; s.size == 0 || unknown > s.score {
		*s = step{unknown, m.unknownID, int32(width)}
		if m.unknownID < 0 {
			e.fail(ErrUnknown)
		}
	}
}

// rounded returns a sum of scores with the precision of the reference, because of two ways with
// almost the same score, rounding decides which is taken. SentencePiece has single precision.
func (m *unigram) rounded(sum float64) float64 {
	if m.pieces {
		return float64(float32(sum))
	}
	return sum
}

// endUnknown appends the ids of the unknown text before word[to:], if there is any.
func (m *unigram) endUnknown(e *encoder, word string, to int) {
	if e.unknownFrom < 0 {
		return
	}
	piece := word[e.unknownFrom:to]
	e.unknownFrom = -1
	if len(piece) <= maxPieceBytes && !m.pieces { // for example <unk> itself
		e.word = append(e.word[:0], piece...)
		if id, ok := e.modelID(e.word); ok && (id == m.unknownID || !e.pieces.special(id)) {
			e.ids = append(e.ids, id)
			return
		}
	}
	if m.hasBytes {
		start := len(e.ids)
		for i := range len(piece) {
			id := m.byteID[piece[i]]
			if id < 0 {
				e.ids = e.ids[:start]
				break
			}
			e.ids = append(e.ids, id)
		}
		if len(e.ids) > start {
			return
		}
	}
	e.ids = append(e.ids, m.unknownID)
}
