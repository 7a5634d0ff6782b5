package tokenizer

// What the vocabulary files other than tokenizer.json have in common: a list of tokens, from which
// the merges of a BPE model follow. See sentencepiece.go, tekken.go, tiktoken.go and gguf.go.

import (
	"cmp"
	"fmt"
	"slices"
	"unicode/utf8"
)

// tokenKind is the type of a token in SentencePiece's and GGUF's files.
type tokenKind uint8

const (
	normalToken tokenKind = iota + 1
	unknownToken
	controlToken  // special; never made from text by SentencePiece
	userToken     // found in text before everything else
	unusedToken   // never made
	byteTokenKind // such as <0x0A>
)

// vocabulary has the tokens of a file by id. Words are spelled as in tokenizer.json.
type vocabulary struct {
	tokens []string
	scores []float64 // higher ones come first; nil: none
	kinds  []tokenKind
}

// add adds the next token.
func (v *vocabulary) add(token string, score float64, kind tokenKind) error {
	if len(v.tokens) >= maxVocab {
		return fmt.Errorf("it has more than %d tokens", maxVocab)
	}
	if len(token) > maxTokenBytes || !utf8.ValidString(token) {
		return fmt.Errorf("token %d has %d bytes or is not valid UTF-8", len(v.tokens), len(token))
	}
	v.tokens = append(v.tokens, token)
	v.scores = append(v.scores, score)
	v.kinds = append(v.kinds, kind)
	return nil
}

// added returns the entries of added_tokens for the tokens that a model does not make.
func (v *vocabulary) added() (out []addedToken) {
	for id, token := range v.tokens {
		switch v.kinds[id] {
		case controlToken, unknownToken:
			out = append(out, addedToken{ID: int32(id), Content: token, Special: true})
		case userToken:
			out = append(out, addedToken{ID: int32(id), Content: token, Normalized: true,
				verbatim: true})
		}
	}
	return out
}

// setVocab sets the vocab of t. Of equal tokens, the first is in it.
func (v *vocabulary) setVocab(t *Tokenizer) {
	t.vocab = make(map[string]int32, len(v.tokens))
	for id, token := range v.tokens {
		switch _, twice := t.vocab[token]; {
		case v.kinds[id] == controlToken || v.kinds[id] == userToken:
		case twice || v.kinds[id] == unusedToken:
			t.duplicates = append(t.duplicates, entry{token, int32(id)})
		default:
			t.vocab[token] = int32(id)
		}
	}
}

// unknown returns the id of the unknown token, or -1.
func (v *vocabulary) unknown() int32 { return int32(slices.Index(v.kinds, unknownToken)) }

// setMerges sets the merges of a model that has only scores: any two tokens are merged whose
// spellings together are a token, those with the highest score first.
func (v *vocabulary) setMerges(t *Tokenizer, m *bpe) error {
	ranks := v.ranks()
	m.merges = make(map[uint64]merged, len(v.tokens))
	for id, token := range v.tokens {
		if v.kinds[id] != normalToken || t.vocab[token] != int32(id) {
			continue
		}
		if len(token) > maxPieceBytes*4 {
			return fmt.Errorf("token %d has %d bytes, the limit is %d", id, len(token),
				maxPieceBytes*4)
		}
		rank := ranks(id)
		for i := range token {
			left, ok1 := t.vocab[token[:i]]
			right, ok2 := t.vocab[token[i:]]
			if ok1 && ok2 && v.kinds[left] == normalToken && v.kinds[right] == normalToken {
				if len(m.merges) > 4*maxMerges {
					return fmt.Errorf("it has more than %d merges", 4*maxMerges)
				}
				m.merges[pairKey(left, right)] = merged{rank, int32(id)}
			}
		}
	}
	return nil
}

// ranks returns a function that gives the rank of the score of a token: 0 for the highest one.
func (v *vocabulary) ranks() func(id int) int32 {
	order := slices.Clone(v.scores)
	slices.SortFunc(order, descending)
	order = slices.Compact(order)
	return func(id int) int32 {
		rank, _ := slices.BinarySearchFunc(order, v.scores[id], descending)
		return int32(rank)
	}
}

func descending(a, b float64) int { return cmp.Compare(b, a) }

// partOf returns a part of a pipeline with the fields in the JSON.
func partOf(kind, json string) *part { return &part{kind: kind, json: []byte(json)} }
