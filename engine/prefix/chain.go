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

// maxHashed is how many blocks Held hashes at most: about a millisecond's work.
const maxHashed = 2048

// Held returns how many tokens of a prompt, of which only the Chain is known, have their keys and
// values in pages, and after how many a sequence can resume. Both count whole blocks only, except
// for the position of a recurrent state. It does not count as use. blockTokens must be a multiple
// of Options.PageTokens, or nothing is found.
func (p Space) Held(chain []Hash, blockTokens int) (known, resumable int) {
	pageTokens := p.t.o.PageTokens
	if blockTokens <= 0 || blockTokens%pageTokens != 0 {
		return 0, 0
	}
	s := search{tokens: make([]int32, 0, blockTokens), data: make([]byte, 0, 4*blockTokens+64)}
	n := p.root
	for i, want := range chain {
		s.want = want
		end := s.find(n, blockTokens/pageTokens)
		if end == nil {
			break
		}
		for m := end; m != n; m = m.parent {
			for _, state := range m.states {
				resumable = max(resumable, state.position)
			}
		}
		n, s.before, known = end, want, (i+1)*blockTokens
	}
	if !p.t.o.Recurrent {
		resumable = known
	}
	return known, resumable
}

// search looks for the block with a hash.
type search struct {
	before, want Hash
	tokens       []int32 // of the pages from the block's beginning
	data         []byte
	hashed       int
}

// find returns the node at the end of the block, which has that many pages after n; nil: none.
func (s *search) find(n *node, pages int) *node {
	if pages == 0 {
		if s.hashed++; s.hashed > maxHashed || s.before.next(s.tokens, s.data) != s.want {
			return nil
		}
		return n
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
