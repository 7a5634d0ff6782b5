package batch

// Shortlist is a part of a vocabulary, from which drafts are chosen: its first and its last tokens,
// and some of those between them. The identifiers of a byte-pair tokenizer are in the order of its
// merges, so the first tokens are the frequent ones. The last ones are those with a meaning of
// their own, such as the end of an answer.
type Shortlist struct {
	Vocab       int // size of the vocabulary
	First, Last int // numbers of first and of last tokens
	// Between are tokens between these, in any order.
	Between []int32
}

// Size returns the number of tokens.
func (s *Shortlist) Size() int { return s.First + s.Last + len(s.Between) }

// Token returns token i, first those of First, then those of Last, then those of Between.
func (s *Shortlist) Token(i int32) int32 {
	switch last := i - int32(s.First); {
	case last < 0:
		return i
	case last < int32(s.Last):
		return int32(s.Vocab-s.Last) + last
	default:
		return s.Between[last-int32(s.Last)]
	}
}

// Ends reports whether a token is one of First or Last.
func (s *Shortlist) Ends(token int32) bool {
	return int(token) < s.First || int(token) >= s.Vocab-s.Last
}
