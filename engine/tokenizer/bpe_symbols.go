package tokenizer

// Building a BPE model from tokenizer.json, and the symbols with which its merges start.

import (
	"errors"
	"fmt"
	"unicode/utf8"
)

// alphabet turns a word into symbols. In byte-level BPE they are its bytes. Otherwise they are its
// characters, and a character that has no token becomes its bytes, such as <0xE2>, or unknown.
type alphabet struct {
	bytes        bool
	byteID       [256]int32 // id of each byte; -1: the byte has no id
	asciiID      [utf8.RuneSelf]int32
	runeID       map[rune]int32 // ids of the other characters
	byteFallback bool           // characters without a token become bytes, if all of them have ids
	unknownID    int32
	hasUnknown   bool // symbols without an id become unknownID; otherwise they are dropped
	fuseUnknown  bool // consecutive symbols without an id become one unknownID

	prefix string // continuing_subword_prefix, before each character but the first
	suffix string // end_of_word_suffix, after the last character
}

func (t *Tokenizer) buildBPE(f *modelJSON) error {
	if f.Dropout != nil && *f.Dropout != 0 {
		return errors.New("dropout is not supported")
	}
	if err := t.readVocab(f); err != nil {
		return err
	}
	m := &bpe{ignoreMerges: f.IgnoreMerges, cache: newWordCache()}
	t.model = m
	if err := m.alphabet.build(t, f); err != nil {
		return err
	}
	return m.buildMerges(t, f.Merges)
}

// build sets the alphabet.
func (a *alphabet) build(t *Tokenizer, f *modelJSON) error {
	a.bytes, a.fuseUnknown = t.byteLevel, f.FuseUnk
	a.prefix, a.suffix = text(f.ContinuingSubwordPrefix), text(f.EndOfWordSuffix)
	spell := func(b int) string { return fmt.Sprintf("<0x%02X>", b) }
	if a.bytes {
		spell = func(b int) string { return string(runeOfByte[b]) }
	}
	complete := true
	for b := range a.byteID {
		id, ok := t.vocab[spell(b)]
		if !ok {
			id, complete = -1, false
		}
		a.byteID[b] = id
	}
	if a.bytes && f.ByteFallback && !complete {
		return errors.New("byte_fallback is not supported for a vocab that lacks single bytes")
	}
	a.byteFallback = f.ByteFallback || a.bytes
	a.buildRunes(t.vocab)
	if f.UnkToken != nil && !(complete && a.byteFallback) {
		id, ok := t.vocab[*f.UnkToken]
		if !ok {
			return fmt.Errorf("unk_token %q is not in vocab", *f.UnkToken)
		}
		a.unknownID, a.hasUnknown = id, true
	}
	return nil
}

func (a *alphabet) buildRunes(vocab map[string]int32) {
	for b := range a.asciiID {
		a.asciiID[b] = -1
	}
	if a.bytes {
		return
	}
	a.runeID = map[rune]int32{}
	for token, id := range vocab {
		r, size := utf8.DecodeRuneInString(token)
		switch {
		case size == 0 || size != len(token):
		case r < utf8.RuneSelf:
			a.asciiID[r] = id
		default:
			a.runeID[r] = id
		}
	}
}

// hasAllBytes reports whether every character has symbols.
func (a *alphabet) hasAllBytes() bool {
	for _, id := range a.byteID {
		if id < 0 {
			return false
		}
	}
	return a.byteFallback
}

func (m *bpe) buildMerges(t *Tokenizer, raw []byte) error {
	merges := make(map[uint64]merged, min(len(t.vocab), len(raw)/5)) // about one per token
	var joined []byte
	rank := int32(0)
	err := eachMerge(raw, func(left, right []byte) error {
		if rank >= maxMerges {
			return fmt.Errorf("there are more than %d", maxMerges)
		}
		leftID, ok1 := t.vocab[string(left)]
		rightID, ok2 := t.vocab[string(right)]
		if len(right) < len(m.prefix) {
			return fmt.Errorf("%q is shorter than continuing_subword_prefix", right)
		}
		joined = append(append(joined[:0], left...), right[len(m.prefix):]...)
		id, ok3 := t.vocab[string(joined)]
		if !ok1 || !ok2 || !ok3 {
			return fmt.Errorf("vocab must have %q, %q and %q", left, right, joined)
		}
		merges[pairKey(leftID, rightID)] = merged{rank, id}
		rank++
		return nil
	})
	if err != nil {
		return fmt.Errorf("merge %d: %w", rank, err)
	}
	m.merges = merges
	return nil
}

// rune returns the id of a character.
func (a *alphabet) rune(r rune) (int32, bool) {
	if r < utf8.RuneSelf {
		return a.asciiID[r], a.asciiID[r] >= 0
	}
	id, ok := a.runeID[r]
	return id, ok
}

// appendSymbol appends a symbol. The last symbol's next is set by endSymbols.
func appendSymbol(symbols []symbol, id int32) []symbol {
	n := int32(len(symbols))
	return append(symbols, symbol{id: id, prev: n - 1, next: n + 1, end: n + 1})
}

func endSymbols(symbols []symbol) []symbol {
	if len(symbols) > 0 {
		symbols[len(symbols)-1].next = -1
	}
	return symbols
}

// appendSymbols appends the symbols with which word starts.
func (a *alphabet) appendSymbols(e *encoder, symbols []symbol, word string) []symbol {
	if a.bytes {
		return endSymbols(a.appendByteSymbols(symbols, word))
	}
	unknown := false // an unknown symbol has not been appended yet
	for i, size := 0, 0; i < len(word); i += size {
		var r rune
		r, size = utf8.DecodeRuneInString(word[i:])
		if i&^(checkBytes-1) != (i+size)&^(checkBytes-1) && e.check() {
			return symbols[:0]
		}
		spelled := word[i : i+size]
		id, ok := a.rune(r)
		if a.prefix != "" && i > 0 || a.suffix != "" && i+size == len(word) {
			id, ok = a.affixed(e, word, i, i+size)
			spelled = string(e.word)
		}
		switch {
		case ok:
			if unknown {
				symbols = appendSymbol(symbols, a.unknownID)
			}
			unknown = false
			symbols = appendSymbol(symbols, id)
		case a.byteFallback && a.allIn(spelled):
			for j := range len(spelled) {
				symbols = appendSymbol(symbols, a.byteID[spelled[j]])
			}
		case a.hasUnknown:
			if unknown && !a.fuseUnknown {
				symbols = appendSymbol(symbols, a.unknownID)
			}
			unknown = true
		}
	}
	if unknown {
		symbols = appendSymbol(symbols, a.unknownID)
	}
	return endSymbols(symbols)
}

// affixed returns the id of the character word[from:to] with its prefix and suffix, which it leaves
// in e.word.
func (a *alphabet) affixed(e *encoder, word string, from, to int) (int32, bool) {
	e.word = e.word[:0]
	if from > 0 {
		e.word = append(e.word, a.prefix...)
	}
	e.word = append(e.word, word[from:to]...)
	if to == len(word) {
		e.word = append(e.word, a.suffix...)
	}
	return e.modelID(e.word)
}

// allIn reports whether all bytes of s have ids.
func (a *alphabet) allIn(s string) bool {
	for i := range len(s) {
		if a.byteID[s[i]] < 0 {
			return false
		}
	}
	return true
}

// appendByteSymbols appends a symbol for each byte of word.
func (a *alphabet) appendByteSymbols(symbols []symbol, word string) []symbol {
	fusing := false
	for i := range len(word) {
		id := a.byteID[word[i]]
		if id < 0 {
			if !a.hasUnknown || fusing && a.fuseUnknown {
				continue
			}
			fusing, id = true, a.unknownID
		} else {
			fusing = false
		}
		symbols = appendSymbol(symbols, id)
	}
	return symbols
}
