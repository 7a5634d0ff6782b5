package prefix

// Prefixes by hashes of their tokens. Another machine can ask for what is cached without sending
// the tokens: who does not have a prefix learns nothing of it.

import (
	"crypto/sha256"
	"encoding/binary"
)

// Hash stands for all tokens of a prompt up to the end of a block: it is the first half of the
// SHA-256 of the hash of the block before, which is zero for the first block, and of the block's
// tokens as 32-bit little-endian numbers.
type Hash [sha256.Size / 2]byte

// Chain returns the hashes of the whole blocks of tokens.
func Chain(tokens []int32, blockTokens int) []Hash {
	return ExtendChain(make([]Hash, 0, len(tokens)/blockTokens), tokens, blockTokens)
}

// ExtendChain adds to the Chain of the first of the tokens the hashes of the whole blocks after
// them.
func ExtendChain(chain []Hash, tokens []int32, blockTokens int) []Hash {
	var h Hash
	if n := len(chain); n > 0 {
		h, tokens = chain[n-1], tokens[n*blockTokens:]
	}
	data := make([]byte, 0, len(h)+4*blockTokens)
	for ; len(tokens) >= blockTokens; tokens = tokens[blockTokens:] {
		h = h.next(tokens[:blockTokens], data)
		chain = append(chain, h)
	}
	return chain
}

// next returns the hash of the block after that of h. data is memory to use.
func (h Hash) next(tokens []int32, data []byte) (next Hash) {
	data = append(data[:0], h[:]...)
	for _, t := range tokens {
		data = binary.LittleEndian.AppendUint32(data, uint32(t))
	}
	sum := sha256.Sum256(data)
	copy(next[:], sum[:])
	return next
}

// End is a position at which a sequence may have ended, such as the end of a message, and the Hash
// of the tokens before it: the chain's last hash before it, and the tokens after that.
type End struct {
	Tokens int
	Hash   Hash
}

// Ends returns the End at each of the positions, which lie in tokens and not at the end of a block
// of the chain.
func Ends(chain []Hash, tokens []int32, blockTokens int, positions []int) (ends []End) {
	data := make([]byte, 0, 4*blockTokens+64)
	for _, at := range positions {
		if block := at / blockTokens; at%blockTokens != 0 && at <= len(tokens) &&
			block <= len(chain) {
			ends = append(ends, End{at,
				before(chain, block).next(tokens[block*blockTokens:at], data)})
		}
	}
	return ends
}

// before returns the hash of the block before that with the number.
func before(chain []Hash, block int) (h Hash) {
	if block > 0 {
		h = chain[block-1]
	}
	return h
}

// Is reports whether the first of the tokens are those before the end. The tokens before its block
// are known to be those of the chain.
func (e End) Is(chain []Hash, tokens []int32, blockTokens int) bool {
	block := e.Tokens / blockTokens
	return e.Tokens <= len(tokens) && block <= len(chain) &&
		before(chain, block).next(tokens[block*blockTokens:e.Tokens], nil) == e.Hash
}

// maxHashed is how many blocks Held hashes at most: about a millisecond's work.
const maxHashed = 2048

// Held returns after how many tokens of a prompt a sequence can resume, if only the Chain of the
// prompt and some Ends are known. It finds whole blocks and ends. It does not count as use.
// blockTokens must be a multiple of Options.PageTokens, or nothing is found.
func (p Space) Held(chain []Hash, blockTokens int, ends []End) (resumable int) {
	pageTokens := p.t.o.PageTokens
	if blockTokens <= 0 || blockTokens%pageTokens != 0 {
		return 0
	}
	s := search{blockTokens: blockTokens, recurrent: p.t.o.Recurrent,
		tokens: make([]int32, 0, blockTokens), data: make([]byte, 0, 4*blockTokens+64)}
	path := []*node{p.root} // the ends of the matching blocks
	for i, want := range chain {
		s.want = want
		end := s.find(path[i], blockTokens/pageTokens)
		if end == nil {
			break
		}
		for m := end; m != path[i]; m = m.parent {
			for _, state := range m.states {
				resumable = max(resumable, state.position)
			}
		}
		s.before = want
		path = append(path, end)
	}
	if !s.recurrent {
		resumable = (len(path) - 1) * blockTokens
	}
	for _, e := range ends {
		block := e.Tokens / blockTokens
		if e.Tokens <= resumable || block >= len(path) {
			continue
		}
		s.before, s.want = before(chain, block), e.Hash
		if s.ends(path[block], e.Tokens) {
			resumable = e.Tokens
		}
	}
	return resumable
}

// search looks for tokens with a hash.
type search struct {
	before, want Hash
	tokens       []int32 // of the pages from the block's beginning
	data         []byte
	hashed       int
	blockTokens  int
	recurrent    bool
}

// matches reports whether these tokens after the block before are the wanted ones.
func (s *search) matches(tokens []int32) bool {
	s.hashed++
	return s.hashed <= maxHashed && s.before.next(tokens, s.data) == s.want
}

// find returns the node at the end of the block, which has that many pages after n; nil: none.
func (s *search) find(n *node, pages int) *node {
	if pages == 0 {
		if s.matches(s.tokens) {
			return n
		}
		return nil
	}
	for _, list := range n.children {
		for _, c := range list {
			if c.children == nil || c.private { // its page is not full, or it is nobody's business
				continue
			}
			length := len(s.tokens)
			s.tokens = append(s.tokens, c.tokens...)
			found := s.find(c, pages-1)
			s.tokens = s.tokens[:length]
			if found != nil || s.hashed > maxHashed {
				return found
			}
		}
	}
	return nil
}

// ends reports whether a sequence can resume at a position, which is less than a block after n.
func (s *search) ends(n *node, position int) bool {
	for _, list := range n.children {
		for _, c := range list {
			if c.private || s.hashed > maxHashed {
				continue
			}
			length := len(s.tokens)
			s.tokens = append(s.tokens, c.tokens...)
			found := false
			switch from, to := c.from, c.from+len(c.tokens); {
			case position > to:
				found = c.children != nil && s.ends(c, position)
			case position > from && (!s.recurrent || c.hasState(position)):
				found = s.matches(s.tokens[:length+position-from])
			}
			s.tokens = s.tokens[:length]
			if found {
				return true
			}
		}
	}
	return false
}

// hasState reports whether a state after that many tokens is kept.
func (n *node) hasState(position int) bool {
	for _, s := range n.states {
		if s.position == position {
			return true
		}
	}
	return false
}
