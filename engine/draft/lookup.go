package draft

// Prompt lookup. Answers often copy: an edited file, a quoted passage, a name. If the last tokens
// of a sequence occurred in it before, those that followed then are a good guess. The longest
// earlier match is followed, and of equally long ones the latest. A copy that goes on is followed
// without another search. The idea is prompt lookup decoding (Apoorv Saxena, 2023), which
// transformers has as prompt_lookup_num_tokens.
//
// The index has each position under the hash of the gram tokens before it, and each entry is
// chained to the entry before it. It grows with the sequence. A token costs a bounded time.

const (
	gram       = 3  // tokens that must be equal
	candidates = 16 // earlier positions that a search compares
	longest    = 64 // tokens before a position that a search compares
)

// Lookup is the index of one sequence.
type Lookup struct {
	latest []int32 // by hash: the latest position after such a gram; 0: none
	before []int32 // by position: the one before it with the same hash; 0: none
	at     int     // the position whose token is expected next; 0: none
	equal  int     // tokens before at that equal the end of the sequence, as far as they are known
}

// NewLookup returns the index of a sequence. It is fast up to the given number of tokens, and
// correct after that.
func NewLookup(tokens int) *Lookup {
	size := 1 << 10
	for size < tokens && size < 1<<20 {
		size *= 2
	}
	return &Lookup{latest: make([]int32, size), before: make([]int32, 0, tokens+1)}
}

// Extend adds the tokens of the sequence that are not in the index yet. If h is not nil, it learns
// which of them were expected.
func (l *Lookup) Extend(tokens []int32, h *Hits) {
	for n := max(1, len(l.before)); n <= len(tokens); n++ {
		if len(l.before) == 0 {
			l.before = append(l.before, 0) // position 0 follows nothing
		}
		l.add(tokens[:n], h)
	}
}

// add adds the last token.
func (l *Lookup) add(tokens []int32, h *Hits) {
	n := len(tokens)
	hit := l.at > 0 && tokens[l.at] == tokens[n-1]
	if l.at > 0 && h != nil {
		h.Observe(l.equal, hit)
	}
	if hit {
		l.at, l.equal = l.at+1, l.equal+1
	} else {
		l.at, l.equal = 0, 0
	}
	if n < gram {
		l.before = append(l.before, 0)
		return
	}
	slot := &l.latest[hash(tokens[n-gram:])&uint32(len(l.latest)-1)]
	if l.at == 0 {
		l.search(tokens, int(*slot))
	}
	l.before = append(l.before, *slot)
	*slot = int32(n)
}

// search follows the chain from a position to the longest match with the end of the sequence.
func (l *Lookup) search(tokens []int32, at int) {
	for range candidates {
		if at == 0 {
			return
		}
		if n := common(tokens[:at], tokens); n >= gram && n > l.equal {
			l.at, l.equal = at, n
		}
		at = int(l.before[at])
	}
}

// common returns how many tokens at the ends of a and b are equal, at most longest.
func common(a, b []int32) int {
	n := 0
	for n < longest && n < len(a) && a[len(a)-1-n] == b[len(b)-1-n] {
		n++
	}
	return n
}

// Match returns the length of the match that the proposal rests on; 0: there is none.
func (l *Lookup) Match() int { return l.equal }

// Propose returns up to n tokens that may follow the sequence. They are a part of tokens.
func (l *Lookup) Propose(tokens []int32, n int) []int32 {
	if l.at == 0 {
		return nil
	}
	return tokens[l.at:min(l.at+n, len(tokens))]
}

// hash is that of FNV-1a, over whole tokens.
func hash(tokens []int32) uint32 {
	h := uint32(2166136261)
	for _, t := range tokens {
		h = (h ^ uint32(t)) * 16777619
	}
	return h ^ h>>15
}
