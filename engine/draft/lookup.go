package draft

// Prompt lookup. Answers often copy: an edited file, a quoted passage, a name. If the last tokens
// of a sequence occurred in it before, those that followed then are a good guess. The longest
// earlier match is followed, and of equally long ones the latest. A copy that goes on is followed
// without another search. The idea is prompt lookup decoding (Apoorv Saxena, 2023), which
// transformers has as prompt_lookup_num_tokens. A text that the caller expects the answer to repeat
// (OpenAI's prediction) is looked up too, and so are other conversations (others.go). That text is
// often in the prompt as well, and is preferred to it, but not to what the answer has since said.
//
// The index has each position under the hash of the gram tokens before it, and each entry is
// chained to the entry before it. It grows with the sequence. A token costs a bounded time.

const (
	gram       = 3  // tokens that must be equal
	candidates = 16 // earlier positions that a search compares
	longest    = 64 // tokens before a position that a search compares
)

// Lookup is the index of one sequence, and of a text before it that the answer may repeat.
// Positions count the tokens of that text first.
type Lookup struct {
	// Owner is whose conversations in Others are followed; "" is an owner like any other.
	Owner string
	// Prompt is how many tokens of the sequence are the prompt. An equally long match in the text
	// is preferred to one in it.
	Prompt int

	text   []int32
	latest []int32 // by hash: the latest position after such a gram; 0: none
	before []int32 // by position: the one before it with the same hash; 0: none
	at     int     // the position whose token is expected next; 0: none
	others *Others // whose position that is; nil: the sequence's own
	equal  int     // tokens before at that equal the end of the sequence, as far as they are known
}

// NewLookup returns the index of a sequence that may repeat text, which may be nil and must not
// change. It is fast up to the given number of tokens of the sequence, and correct after that.
func NewLookup(text []int32, tokens int) *Lookup {
	size := 1 << 10
	for size < len(text)+tokens && size < 1<<20 {
		size *= 2
	}
	l := &Lookup{text: text, latest: make([]int32, size),
		before: make([]int32, 1, len(text)+tokens+1)} // position 0 follows nothing
	for n := 1; n < len(text); n++ {
		l.index(text[:n], n)
	}
	if len(text) > 0 {
		l.before = append(l.before, 0) // no token follows its end
	}
	return l
}

// Extend adds the tokens of the sequence that are not in the index yet. If h is not nil, it learns
// which of them were expected. If the end of the sequence has no match of its own, or a short one,
// it is searched for in others, if not nil.
func (l *Lookup) Extend(tokens []int32, h *Hits, others *Others) {
	for n := len(l.before) - len(l.text); n <= len(tokens); n++ {
		l.add(tokens[:n], h)
	}
	if others != nil && l.equal < othersGram {
		if at, equal := others.search(l.Owner, tokens); at > 0 {
			l.at, l.equal, l.others = at, equal, others
		}
	}
}

// add adds the last token of the sequence.
func (l *Lookup) add(tokens []int32, h *Hits) {
	expected := l.following(tokens)
	hit := len(expected) > 0 && expected[0] == tokens[len(tokens)-1]
	if len(expected) > 0 && h != nil {
		h.Observe(l.equal, hit)
	}
	if last := len(expected) == 1 && (l.others != nil || l.at < len(l.text)); !hit || last {
		l.at, l.equal, l.others = 0, 0, nil
	} else {
		l.at, l.equal = l.at+1, l.equal+1
	}
	if l.at == 0 && len(tokens) >= gram {
		l.search(tokens, int(*l.slot(tokens)))
	}
	l.index(tokens, len(l.text)+len(tokens))
}

// index enters a position under the gram before it, the end of tokens.
func (l *Lookup) index(tokens []int32, position int) {
	if len(tokens) < gram {
		l.before = append(l.before, 0)
		return
	}
	slot := l.slot(tokens)
	l.before = append(l.before, *slot)
	*slot = int32(position)
}

// slot returns the entry of latest for the gram at the end of tokens.
func (l *Lookup) slot(tokens []int32) *int32 {
	return &l.latest[hash(tokens[len(tokens)-gram:])&uint32(len(l.latest)-1)]
}

// preceding returns the tokens before a position of the sequence or of the text.
func (l *Lookup) preceding(tokens []int32, position int) []int32 {
	if position < len(l.text) {
		return l.text[:position]
	}
	return tokens[:position-len(l.text)]
}

// following returns the tokens from position at on; none if nothing is expected.
func (l *Lookup) following(tokens []int32) []int32 {
	switch {
	case l.at == 0:
		return nil
	case l.others != nil:
		return l.others.from(l.at)
	case l.at < len(l.text):
		return l.text[l.at:]
	}
	return tokens[l.at-len(l.text):]
}

// search follows the chain from a position to the longest match with the end of the sequence.
func (l *Lookup) search(tokens []int32, at int) {
	for range candidates {
		if at == 0 {
			return
		}
		n := common(l.preceding(tokens, at), tokens)
		inPrompt := l.at > len(l.text) && l.at <= len(l.text)+l.Prompt
		preferred := n == l.equal && at < len(l.text) && inPrompt
		if n >= gram && (n > l.equal || preferred) {
			l.at, l.equal = at, n
		}
		at = int(l.before[at])
	}
}

// common returns how many tokens at the ends of a and b are equal, at most longest.
func common(a, b []int32) int {
	n := 0
	for n < min(longest, len(a), len(b)) && a[len(a)-1-n] == b[len(b)-1-n] {
		n++
	}
	return n
}

// Match returns the length of the match that the proposal rests on; 0: there is none.
func (l *Lookup) Match() int {
	if l.others != nil && l.others.from(l.at) == nil {
		return 0 // it has been dropped
	}
	return l.equal
}

// Predicted reports whether the proposal is a part of the text that the answer may repeat.
func (l *Lookup) Predicted() bool { return l.others == nil && l.at > 0 && l.at < len(l.text) }

// Propose returns up to n tokens that may follow the sequence. They are a part of tokens, of the
// text, or of Others.
func (l *Lookup) Propose(tokens []int32, n int) []int32 {
	f := l.following(tokens)
	return f[:min(n, len(f))]
}

// hash is that of FNV-1a, over whole tokens.
func hash(tokens []int32) uint32 {
	h := uint32(2166136261)
	for _, t := range tokens {
		h = (h ^ uint32(t)) * 16777619
	}
	return h ^ h>>15
}
