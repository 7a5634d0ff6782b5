package tokenizer

// BPE as SentencePiece does it: two symbols are merged if their text together is a token, so a
// character that is no token can still be a part of one. Only when the merges are over, symbols
// without a token become bytes or the unknown token. Source:
// https://github.com/google/sentencepiece, src/bpe_model.cc

import (
	"fmt"
	"slices"
	"unicode/utf8"
)

// pieceBPE is what a bpe of SentencePiece has beside that of tokenizer.json.
type pieceBPE struct {
	tokens    []string
	firstChar int32  // ids from here on stand for characters that only occur in longer tokens
	chars     []rune // these characters
	// unused has, by id, the tokens of which merges must be undone; nil: none can be merged.
	unused []bool
}

func (s *sentencePiece) buildBPE(t *Tokenizer) error {
	m := &bpe{cache: newWordCache(), pieces: &pieceBPE{tokens: s.tokens,
		firstChar: int32(len(s.tokens))}}
	t.model = m
	m.byteFallback, m.fuseUnknown, m.byteID = s.byteFallback, true, idsOfBytes(t.byteTokens)
	if unknown := s.unknown(); unknown >= 0 {
		m.unknownID, m.hasUnknown = unknown, true
	}
	ids := map[string]int32{}
	for id, token := range s.tokens {
		char := utf8.RuneCountInString(token) == 1
		if _, twice := ids[token]; !twice && s.mergeable(id) && !(char &&
			s.kinds[id] == unusedToken) {
			ids[token] = int32(id)
		}
	}
	m.buildRunes(ids)
	for id, token := range s.tokens {
		for _, r := range token {
			if _, known := m.rune(r); !known && s.mergeable(id) {
				char := m.pieces.firstChar + int32(len(m.pieces.chars))
				m.pieces.chars = append(m.pieces.chars, r)
				ids[string(r)] = char
				m.setRune(r, char)
			}
		}
	}
	return s.setMerges(m, ids)
}

// mergeable reports whether merges can make a token.
func (s *sentencePiece) mergeable(id int) bool {
	return s.kinds[id] == normalToken || s.kinds[id] == unusedToken
}

// setMerges sets the merges, those with the highest score first. ids has the tokens and the
// characters that can be merged.
func (s *sentencePiece) setMerges(m *bpe, ids map[string]int32) error {
	ranks := s.ranks()
	m.merges = make(map[uint64]merged, len(s.tokens))
	for id, token := range s.tokens {
		if ids[token] != int32(id) || !s.mergeable(id) {
			continue
		}
		if len(token) > maxPieceBytes*4 {
			return fmt.Errorf("token %d has %d bytes, the limit is %d", id, len(token),
				maxPieceBytes*4)
		}
		rank := ranks(id)
		for i := range token {
			left, ok1 := ids[token[:i]]
			right, ok2 := ids[token[i:]]
			if !ok1 || !ok2 {
				continue
			}
			if len(m.merges) > 4*maxMerges {
				return fmt.Errorf("it has more than %d merges", 4*maxMerges)
			}
			m.merges[pairKey(left, right)] = merged{rank, int32(id)}
			if s.kinds[id] == unusedToken {
				if m.pieces.unused == nil {
					m.pieces.unused = make([]bool, len(s.tokens))
				}
				m.pieces.unused[id] = true
			}
		}
	}
	return nil
}

// idsOfBytes returns the ids of all bytes; -1: none.
func idsOfBytes(tokens map[int32]byte) (ids [256]int32) {
	for b := range ids {
		ids[b] = -1
	}
	for id, b := range tokens {
		ids[b] = id
	}
	return ids
}

// setRune sets the id of a character.
func (a *alphabet) setRune(r rune, id int32) {
	if r < utf8.RuneSelf {
		a.asciiID[r] = id
	} else {
		a.runeID[r] = id
	}
}

// isToken reports whether a character is a token.
func (m *bpe) isToken(r rune) bool {
	id, ok := m.rune(r)
	return ok && (m.pieces == nil || id < m.pieces.firstChar)
}

// appendPiece appends the tokens of a symbol that is left when the merges are over.
func (m *bpe) appendPiece(e *encoder, dst []int32, id int32) []int32 {
	p := m.pieces
	switch {
	case id >= p.firstChar:
		spelled := string(p.chars[id-p.firstChar])
		if m.byteFallback && m.allIn(spelled) {
			for i := range len(spelled) {
				dst = append(dst, m.byteID[spelled[i]])
			}
		} else if m.hasUnknown {
			dst = append(dst, m.unknownID)
		}
		return dst
	case p.unused != nil && p.unused[id]:
		if halves, ok := e.halves[id]; ok {
			return m.appendPiece(e, m.appendPiece(e, dst, halves[0]), halves[1])
		}
	}
	return append(dst, id)
}

// fuse joins unknown tokens in a row in ids[from:].
func (m *bpe) fuse(ids []int32, from int) []int32 {
	if m.pieces == nil || !m.hasUnknown {
		return ids
	}
	fused := slices.CompactFunc(ids[from:], func(a, b int32) bool {
		return a == m.unknownID && b == m.unknownID
	})
	return ids[:from+len(fused)]
}
