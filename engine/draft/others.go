package draft

// What followed the same tokens in other conversations. Agents read the same files in several
// conversations, clients send a request again, and answers to like questions are alike. Others
// holds the tokens of requests that have ended, the latest 262,144. A sequence that ends like one
// of them, in 16 tokens or more, is expected to go on like it, unless that is so of its own earlier
// text.
//
// The index has the latest position after each gram of 16 tokens. Templates repeat shorter ones in
// every conversation.

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
	first  int   // the position of tokens[0]; positions grow for ever, and 0 stands for none
	latest []int // by hash: the latest position after such a gram
}

// Add adds the tokens of a request. The first known ones have been added by an earlier request of
// the same conversation. There may be fewer tokens: a preempted request has none that are computed.
func (o *Others) Add(tokens []int32, known int) {
	if o.latest == nil {
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
	h := gramHash(tokens[:othersGram])
	for n := othersGram; n < len(tokens); n++ {
		*o.slot(h) = at + n
		h = (h-uint32(tokens[n-othersGram])*gramPower)*gramBase + uint32(tokens[n])
	}
}

// drop removes the first n tokens, and overwrites them.
func (o *Others) drop(n int) {
	copy(o.tokens, o.tokens[n:])
	clear(o.tokens[len(o.tokens)-n:])
	o.tokens, o.first = o.tokens[:len(o.tokens)-n], o.first+n
}

// Forget removes all tokens.
func (o *Others) Forget() { o.drop(len(o.tokens)) }

// search returns the position after the latest gram that equals the end of tokens, and how many
// tokens before it are equal; 0 if there is none.
func (o *Others) search(tokens []int32) (position, equal int) {
	if len(tokens) < othersGram || len(o.tokens) == 0 {
		return 0, 0
	}
	position = *o.slot(gramHash(tokens[len(tokens)-othersGram:]))
	if position < o.first+othersGram { // dropped, at least in part
		return 0, 0
	}
	if equal = common(o.tokens[:position-o.first], tokens); equal < othersGram {
		return 0, 0 // another gram with the same hash
	}
	return position, equal
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

func (o *Others) slot(h uint32) *int { return &o.latest[(h^h>>15)&(othersSlots-1)] }

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
