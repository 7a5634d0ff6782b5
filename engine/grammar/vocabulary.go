package grammar

// The tokens of a model as a trie of their bytes, in one slice in the order of a walk. A walk that
// skips what no text allows reads it from front to back.

import (
	"bytes"
	"slices"
)

// trieNode is a byte of one or more tokens.
type trieNode struct {
	after int32  // index of the first node that is not below this one
	token int32  // the token that ends here; -1: none
	depth uint16 // 0 for the first byte of a token
	byte  byte
}

// Vocabulary holds the tokens that an answer can have. It is immutable.
type Vocabulary struct {
	size   int // number of tokens, those without text included
	nodes  []trieNode
	depth  int               // most bytes of a token
	others map[int32][]int32 // further tokens with the same bytes, by the first
	tokens [][]byte          // by token; nil: not in the trie
	ends   []int32           // tokens that end an answer
	encode func(string) []int32
}

// maxTokenBytes bounds the depth of the trie. Longer tokens are never chosen.
const maxTokenBytes = 1 << 12

// NewVocabulary returns a Vocabulary. tokens has the text of each token, or nil for those that an
// answer of a given form cannot have, such as control tokens. ends are the tokens that end an
// answer. encode is the model's tokenization of a text; nil: no token is ever forced.
func NewVocabulary(tokens [][]byte, ends []int32, encode func(string) []int32) *Vocabulary {
	v := &Vocabulary{size: len(tokens), tokens: slices.Clone(tokens), ends: ends, encode: encode,
		others: map[int32][]int32{}}
	order := make([]int32, 0, len(tokens))
	for id, text := range v.tokens {
		if len(text) == 0 || len(text) > maxTokenBytes || slices.Contains(ends, int32(id)) {
			v.tokens[id] = nil
			continue
		}
		order = append(order, int32(id))
	}
	slices.SortStableFunc(order, func(a, b int32) int {
		return bytes.Compare(v.tokens[a], v.tokens[b])
	})
	var path []int32 // the nodes of the last token's bytes
	var last []byte
	for _, id := range order {
		text := v.tokens[id]
		if len(path) > 0 && bytes.Equal(text, last) {
			first := v.nodes[path[len(path)-1]].token
			v.others[first] = append(v.others[first], id)
			continue
		}
		common := 0
		for common < len(last) && common < len(text) && last[common] == text[common] {
			common++
		}
		for _, n := range path[common:] {
			v.nodes[n].after = int32(len(v.nodes))
		}
		path = path[:common]
		for at := common; at < len(text); at++ {
			path = append(path, int32(len(v.nodes)))
			v.nodes = append(v.nodes, trieNode{token: -1, depth: uint16(at), byte: text[at]})
		}
		v.nodes[len(v.nodes)-1].token = id
		v.depth, last = max(v.depth, len(text)), text
	}
	for _, n := range path {
		v.nodes[n].after = int32(len(v.nodes))
	}
	return v
}

// isEnd reports whether a token ends the answer.
func (v *Vocabulary) isEnd(token int32) bool { return slices.Contains(v.ends, token) }

// text returns the bytes of a token, nil if it cannot be in an answer.
func (v *Vocabulary) text(token int32) []byte {
	if token < 0 || int(token) >= len(v.tokens) {
		return nil
	}
	return v.tokens[token]
}

// children calls f with the first node of each byte that tokens have after the text prefix, until f
// returns false. Without such a token it does nothing.
func (v *Vocabulary) children(prefix []byte, f func(b byte) bool) {
	from, to := int32(0), int32(len(v.nodes))
	for _, b := range prefix {
		for from < to && v.nodes[from].byte != b {
			from = v.nodes[from].after
		}
		if from >= to {
			return
		}
		from, to = from+1, v.nodes[from].after
	}
	for from < to && f(v.nodes[from].byte) {
		from = v.nodes[from].after
	}
}
