package grammar

// The tokens of a model as tries of their bytes. Plain tokens, which consist of characters that a
// string may have anywhere, have a trie of their own: inside of a string all of them are allowed,
// and need no walk (plain.go).

import (
	"bytes"
	"slices"
	"unicode/utf8"
)

// Vocabulary holds the tokens that an answer can have. It is immutable.
type Vocabulary struct {
	size   int // number of tokens, those without text included
	plain  trie
	rest   trie
	within [][]uint64 // the bits of the plain tokens of at most i characters
	chars  []int32    // plain tokens by the number of their characters, then by id
	starts []int32    // index in chars of the first one with more than i characters
	depth  int        // most bytes of a token
	tokens [][]byte   // by token; nil: not in a trie
	ends   []int32    // tokens that end an answer
	encode func(string) []int32
}

// maxTokenBytes bounds the depth of the tries. Longer tokens are never chosen.
const maxTokenBytes = 1 << 12

// maxPlainChars is the most characters of a plain token; longer ones are in the other trie.
const maxPlainChars = 32

// NewVocabulary returns a Vocabulary. tokens has the text of each token, or nil for those that an
// answer of a given form cannot have, such as control tokens. ends are the tokens that end an
// answer. encode is the model's tokenization of a text, which may
// end within a character; nil: no token is ever forced.
func NewVocabulary(tokens [][]byte, ends []int32, encode func(string) []int32) *Vocabulary {
	v := &Vocabulary{size: len(tokens), tokens: slices.Clone(tokens), ends: ends, encode: encode}
	var plain, rest []int32
	for id, text := range v.tokens {
		switch {
		case len(text) == 0 || len(text) > maxTokenBytes || slices.Contains(ends, int32(id)):
			v.tokens[id] = nil
			continue
		case isPlain(text):
			plain = append(plain, int32(id))
		default:
			rest = append(rest, int32(id))
		}
		v.depth = max(v.depth, len(text))
	}
	v.plain, v.rest = newTrie(v.tokens, plain), newTrie(v.tokens, rest)
	v.countPlain(plain)
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

// isPlain reports whether all of text are plain characters, and not too many.
func isPlain(text []byte) bool {
	for _, c := range string(text) {
		if c < ' ' || c == '"' || c == '\\' || c == utf8.RuneError {
			return false
		}
	}
	return utf8.RuneCount(text) <= maxPlainChars
}

// countPlain sets within, chars and starts.
func (v *Vocabulary) countPlain(plain []int32) {
	count := func(id int32) int { return utf8.RuneCount(v.tokens[id]) }
	v.chars = slices.Clone(plain)
	slices.SortStableFunc(v.chars, func(a, b int32) int { return count(a) - count(b) })
	bits := make([]uint64, (v.size+63)/64)
	next := 0
	for n := range maxPlainChars + 1 {
		for ; next < len(v.chars) && count(v.chars[next]) <= n; next++ {
			bits[v.chars[next]/64] |= 1 << (v.chars[next] % 64)
		}
		v.starts = append(v.starts, int32(next))
		if n > 0 && v.starts[n] == v.starts[n-1] {
			v.within = append(v.within, v.within[n-1]) // it has no more tokens
		} else {
			v.within = append(v.within, slices.Clone(bits))
		}
	}
}

// trie is a trie in one slice, in the order of a walk. A walk that skips what no text allows reads
// it from front to back.
type trie struct {
	nodes []trieNode
	order []int32 // the tokens in the order of the nodes
}

// trieNode is a byte of one or more tokens.
type trieNode struct {
	after int32  // index of the first node that is not below this one
	first int32  // the tokens that end here or below begin at order[first]
	own   int32  // those that end here end at order[own]
	depth uint16 // 0 for the first byte of a token
	byte  byte
}

// below returns the range in order of the tokens that end at a node or below.
func (t *trie) below(i int) (from, to int32) {
	n := &t.nodes[i]
	if int(n.after) == len(t.nodes) {
		return n.first, int32(len(t.order))
	}
	return n.first, t.nodes[n.after].first
}

func newTrie(tokens [][]byte, ids []int32) trie {
	t := trie{order: slices.Clone(ids)}
	slices.SortStableFunc(t.order, func(a, b int32) int {
		return bytes.Compare(tokens[a], tokens[b])
	})
	var path []int32 // the nodes of the last token's bytes
	var last []byte
	for i, id := range t.order {
		text := tokens[id]
		common := 0
		for common < len(last) && common < len(text) && last[common] == text[common] {
			common++
		}
		for _, n := range path[common:] {
			t.nodes[n].after = int32(len(t.nodes))
		}
		path = path[:common]
		for at := common; at < len(text); at++ {
			path = append(path, int32(len(t.nodes)))
			t.nodes = append(t.nodes, trieNode{first: int32(i), own: int32(i),
				depth: uint16(at), byte: text[at]})
		}
		t.nodes[path[len(path)-1]].own = int32(i) + 1
		last = text
	}
	for _, n := range path {
		t.nodes[n].after = int32(len(t.nodes))
	}
	return t
}

// children calls f with each byte that tokens have after the text prefix, until f returns false.
// Without such a token it does nothing.
func (t *trie) children(prefix []byte, f func(b byte) bool) {
	from, to := int32(0), int32(len(t.nodes))
	for _, b := range prefix {
		for from < to && t.nodes[from].byte != b {
			from = t.nodes[from].after
		}
		if from >= to {
			return
		}
		from, to = from+1, t.nodes[from].after
	}
	for from < to && f(t.nodes[from].byte) {
		from = t.nodes[from].after
	}
}
