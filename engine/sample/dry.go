package sample

// DRY ("don't repeat yourself", by p-e-w, text-generation-webui pull request 5677, and llama.cpp):
// a token that would continue a sequence of tokens that the text had before is made less likely,
// the more so the longer that sequence is.
//
// The n tokens so far end with a suffix that occurred before and ended at position i. match[i] is
// its length, 0 for most positions. With token t at i+1, t's logit falls by
// Multiplier * Base^(match[i] - AllowedTokens) for the largest match of at least AllowedTokens.
// Each new token extends the matches at i-1 to i wherever the new token is at i, so that no step
// walks over the text.

import (
	"cmp"
	"math"
	"slices"
)

// DRY has the parameters of that sampler.
type DRY struct {
	Multiplier    float32 // 0: off
	Base          float32 // 0: DefaultDRYBase
	AllowedTokens int     // shorter repetitions are free; 0: DefaultDRYAllowedTokens
	ContextTokens int     // how many of the last tokens count; 0: all
	// Breakers are texts across which no repetition is counted. A token that contains one of them
	// breaks a sequence and is not made less likely. nil: DefaultDRYBreakers.
	Breakers []string
}

// The defaults are those of llama.cpp and text-generation-webui.
const (
	DefaultDRYBase          = 1.75
	DefaultDRYAllowedTokens = 2
)

// DefaultDRYBreakers returns the breakers of llama.cpp and text-generation-webui.
func DefaultDRYBreakers() []string { return []string{"\n", ":", "\"", "*"} }

// maxMatch bounds the length of a match, and with it a penalty.
const maxMatch = 1 << 10

// maxPlaces bounds the earlier places of a token that count, and with them the work for each token
// of a text that repeats one token.
const maxPlaces = 1 << 11

// repeats finds repetitions. It is nil if DRY is off.
type repeats struct {
	DRY
	breakers []uint64
	tokens   []int32
	at       map[int32][]int32 // the positions of each token, ascending
	match    []uint16          // by position: the length of the match that ends there
	ends     []int32           // the positions where match is not 0
	lowered  map[int32]uint16  // the longest match that each token continues
}

// newRepeats returns nil if DRY is off.
func newRepeats(p DRY, tokens Tokens) *repeats {
	if p.Multiplier == 0 {
		return nil
	}
	p.Base = cmp.Or(p.Base, DefaultDRYBase)
	p.AllowedTokens = cmp.Or(p.AllowedTokens, DefaultDRYAllowedTokens)
	if p.Breakers == nil {
		p.Breakers = DefaultDRYBreakers()
	}
	r := &repeats{DRY: p, at: map[int32][]int32{}, lowered: map[int32]uint16{}}
	if tokens != nil && len(p.Breakers) > 0 {
		r.breakers = tokens.Containing(p.Breakers)
	}
	return r
}

// push adds a token to the text.
func (r *repeats) push(token int32) {
	n := int32(len(r.tokens))
	r.tokens, r.match = append(r.tokens, token), append(r.match, 0)
	from := int32(0) // the first position that counts
	if r.ContextTokens > 0 {
		from = max(0, n+1-int32(r.ContextTokens))
	}
	old := len(r.ends)
	if !has(r.breakers, token) {
		places := r.at[token]
		if more := len(places) - maxPlaces; more > 0 {
			from = max(from, places[more])
		}
		// From the end, so that match[i-1] is still that of the text before.
		for j := len(places) - 1; j >= 0 && places[j] >= from; j-- {
			i := places[j]
			longest := min(i-from+1, maxMatch)
			if i > 0 {
				longest = min(longest, int32(r.match[i-1])+1)
			}
			r.ends = append(r.ends, i)
			r.match[i] = uint16(longest)
		}
		r.at[token] = append(places, n)
	}
	for _, i := range r.ends[:old] {
		if i < from || r.tokens[i] != token {
			r.match[i] = 0
		}
	}
	r.ends = slices.Delete(r.ends, 0, old)
}

// lower makes the tokens less likely that would continue a repetition.
func (r *repeats) lower(logits []float32) {
	for _, i := range r.ends {
		next, length := r.tokens[i+1], r.match[i]
		if int(length) >= r.AllowedTokens && length > r.lowered[next] && !has(r.breakers, next) {
			r.lowered[next] = length
		}
	}
	for token, length := range r.lowered {
		if token >= 0 && int(token) < len(logits) {
			logits[token] -= r.penalty(int(length))
		}
	}
	clear(r.lowered)
}

// penalty returns what the logit of a token falls by that continues a repetition. It is bounded, so
// that a logit stays finite.
func (r *repeats) penalty(length int) float32 {
	const most = 1e30
	p := float64(r.Multiplier) * math.Pow(float64(r.Base), float64(length-r.AllowedTokens))
	return float32(min(p, most))
}
