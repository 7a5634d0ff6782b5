package draft

// What followed the same tokens in other conversations. Agents read the same files in several
// conversations, clients send a request again, and answers to like questions are alike. Others
// holds the tokens of requests that have ended, the latest 262,144. A sequence that ends like one
// of them, in 16 tokens or more, is expected to go on like it, unless that is so of its own earlier
// text. Only conversations of the same owner are followed: whether a draft was right tells whether
// somebody's text goes on like that.
//
// The index has the latest position after each gram of 16 tokens. Templates repeat shorter ones in
// every conversation.

import (
	"cmp"
	"hash/maphash"
	"slices"
)

const (
	othersGram   = 16
	othersTokens = 1 << 18
	othersSlots  = 1 << 18 // a power of two
	separator    = -1      // after a request's tokens; no token has this id
)

// Others holds tokens of requests that have ended. The zero value holds none. It is not safe for
// concurrent use.
type Others struct {
	tokens []int32
	first  int    // the position of tokens[0]; positions grow for ever, and 0 stands for none
	latest []int  // by hash: the latest position after such a gram
	parts  []part // the requests of tokens, in order
	seed   maphash.Seed
}

// part is the tokens of a request.
type part struct {
	end   int // the position of its separator
	owner string
}

// Add adds the tokens of a request of an owner. The first known ones have been added by an earlier
// request of the same conversation. There may be fewer tokens: a preempted request has none that
// are computed.
// If another owner's request computed the first tokens, no request of this owner has added them. It
// then has fewer drafts, and nothing else changes.
func (o *Others) Add(owner string, tokens []int32, known int) {
	if o.latest == nil {
		o.seed = maphash.MakeSeed()
		o.tokens, o.latest, o.first = make([]int32, 0, othersTokens), make([]int, othersSlots), 1
	}
	from := max(0, known-othersGram, len(tokens)-othersTokens/2)
	if len(tokens)-from <= othersGram {
		return
	}
	tokens = tokens[from:]
	if len(o.tokens)+len(tokens)+1 > cap(o.tokens) {
		o.drop(max(0, len(o.tokens)-(othersTokens/2-1)))
	}
	at := o.first + len(o.tokens)
	o.tokens = append(append(o.tokens, tokens...), separator)
	o.parts = append(o.parts, part{at + len(tokens), owner})
	h, of := gramHash(tokens[:othersGram]), o.hash(owner)
	for n := othersGram; n < len(tokens); n++ {
		*o.slot(h, of) = at + n
		h = (h-uint32(tokens[n-othersGram])*gramPower)*gramBase + uint32(tokens[n])
	}
}

// drop removes the first n tokens, and overwrites them.
func (o *Others) drop(n int) {
	copy(o.tokens, o.tokens[n:])
	clear(o.tokens[len(o.tokens)-n:])
	o.tokens, o.first = o.tokens[:len(o.tokens)-n], o.first+n
	gone := 0
	for gone < len(o.parts) && o.parts[gone].end < o.first {
		gone++
	}
	o.parts = slices.Delete(o.parts, 0, gone)
}

// Forget removes all tokens.
func (o *Others) Forget() { o.drop(len(o.tokens)) }

// search returns the position after the latest gram of the owner's that equals the end of tokens,
// and how many tokens before it are equal; 0 if there is none.
func (o *Others) search(owner string, tokens []int32) (position, equal int) {
	if len(tokens) < othersGram || len(o.tokens) == 0 {
		return 0, 0
	}
	position = *o.slot(gramHash(tokens[len(tokens)-othersGram:]), o.hash(owner))
	if position < o.first+othersGram { // dropped, at least in part
		return 0, 0
	}
	if equal = common(o.tokens[:position-o.first], tokens); equal < othersGram {
		return 0, 0 // another gram with the same hash
	}
	if o.ownerOf(position) != owner {
		return 0, 0 // the same gram of another owner, with the same hash
	}
	return position, equal
}

// ownerOf returns the owner of the request at a position.
func (o *Others) ownerOf(position int) string {
	i, _ := slices.BinarySearchFunc(o.parts, position,
		func(p part, position int) int { return cmp.Compare(p.end, position) })
	return o.parts[i].owner
}

// from returns the tokens of a request from a position on; nil if they have been dropped.
func (o *Others) from(position int) []int32 {
	if position < o.first {
		return nil
	}
	rest := o.tokens[position-o.first:]
	for n := range min(len(rest), MaxTokens) {
		if rest[n] == separator {
			return rest[:n]
		}
	}
	return rest[:min(len(rest), MaxTokens)]
}

// hash returns the hash of an owner: 0 for "", else a random number, so that nobody can choose a
// gram that takes the slot of another owner's.
func (o *Others) hash(owner string) uint64 {
	if owner == "" {
		return 0
	}
	return maphash.String(o.seed, owner)
}

// slot returns the entry of latest for a gram of an owner, by their hashes.
func (o *Others) slot(gram uint32, owner uint64) *int {
	h := (gram ^ uint32(owner)) * (uint32(owner>>32) | 1)
	return &o.latest[(h^h>>15)&(othersSlots-1)]
}

// The hash of a gram is a polynomial of its tokens, so that the next one costs one step.
const gramBase = 0x9E3779B1

var gramPower = func() uint32 { // of the first token of a gram
	p := uint32(1)
	for range othersGram - 1 {
		p *= gramBase
	}
	return p
}()

func gramHash(tokens []int32) (h uint32) {
	for _, t := range tokens {
		h = h*gramBase + uint32(t)
	}
	return h
}
