package tokenizer

import (
	"hash/maphash"
	"slices"
	"strings"
	"sync/atomic"
)

// Byte-pair encoding of one word. The word starts as one symbol per byte, or per character if the
// model is not byte-level; see bpe_symbols.go. Then the pair of adjacent symbols with the lowest
// rank is merged into one symbol, and so on until no pair has a rank. Among pairs of equal rank,
// the leftmost is merged first.
//
// The symbols are in a linked list within an array, and the candidate pairs in a heap. So a word of
// n bytes takes O(n log n) time, even a megabyte without a space. A cache holds the ids of recent
// words.

// bpe is the model BPE of tokenizer.json; see modelJSON.
type bpe struct {
	alphabet
	merges       map[uint64]merged
	ignoreMerges bool // a word that is in the vocabulary is one token
	cache        wordCache
	pieces       *pieceBPE // of SentencePiece; nil: the model is not its

	// complete says that a word has at least as many tokens as tooMany counts, and separable that
	// it can be encoded in parts; see longword.go.
	complete  bool
	separable bool
	longest   int // bytes of the longest token that merges can make
	pairs     pairTable
}

// merged is the rank of a pair and the id of the symbol into which it is merged.
type merged struct {
	rank, id int32
}

func pairKey(left, right int32) uint64 { return uint64(uint32(left))<<32 | uint64(uint32(right)) }

// symbol is a node of the linked list. The symbol at index i covers the symbols [i, end) with which
// the word has started.
type symbol struct {
	id         int32 // -1 once it has been merged into its left neighbor
	prev, next int32 // indexes of its neighbors; -1 at the ends
	end        int32 // index after the last symbol that has been merged into it
}

// encodeWord appends the ids of word, which is not empty.
func (m *bpe) encodeWord(e *encoder, word string) {
	if ids, ok := m.cache.get(word); ok {
		e.append(ids...)
		return
	}
	start := len(e.ids)
	switch id, ok := m.wholeWord(e, word); {
	case ok:
		e.ids = append(e.ids, id)
	case len(word) > longWordBytes || len(word) > maxCachedBytes && !m.bytes:
		m.longWord(e, word)
	default:
		e.ids = m.appendBPE(e, e.ids, word)
	}
	if e.append(); e.err == nil {
		m.cache.put(word, e.ids[start:])
	}
}

// wholeWord returns the id of word if merges are ignored and it is in the vocabulary.
func (m *bpe) wholeWord(e *encoder, word string) (id int32, ok bool) {
	if !m.ignoreMerges || len(word) > m.longest {
		return 0, false
	}
	if m.bytes {
		e.word = appendByteLevel(e.word[:0], word)
	} else {
		e.word = append(e.word[:0], word...)
	}
	return e.modelID(e.word)
}

// appendBPE appends the ids of a word by merging its symbols.
func (m *bpe) appendBPE(e *encoder, dst []int32, word string) []int32 {
	if len(word) > longWordBytes && cap(e.symbols) < len(word) {
		// Not slices.Grow, which makes a slice twice under the race detector.
		e.symbols, e.queue = make([]symbol, 0, len(word)), make(mergeQueue, 0, len(word))
	}
	clear(e.halves)
	start := len(dst)
	e.symbols = m.appendSymbols(e, e.symbols[:0], word)
	symbols := e.symbols
	e.queue = e.queue[:0]
	for i := range len(symbols) - 1 {
		if (i+1)&(checkBytes-1) == 0 && e.check() {
			return dst
		}
		m.pushPair(e, int32(i))
	}
	for steps := 1; len(e.queue) > 0; steps++ {
		if steps&(checkBytes-1) == 0 && e.check() {
			return dst
		}
		c := e.queue.pop()
		left := &symbols[c.at()]
		// A candidate is outdated if one of its symbols has been merged since. Symbols only grow,
		// so the present pair at that index then has another end.
		if left.id < 0 || left.next < 0 || symbols[left.next].end != c.end {
			continue
		}
		right := &symbols[left.next]
		left.id, left.end, left.next = c.id, right.end, right.next
		right.id = -1
		if left.next >= 0 {
			symbols[left.next].prev = c.at()
			m.pushPair(e, c.at())
		}
		if left.prev >= 0 {
			m.pushPair(e, left.prev)
		}
	}
	for i := int32(0); i >= 0 && len(symbols) > 0; i = symbols[i].next {
		if m.pieces == nil {
			dst = append(dst, symbols[i].id)
		} else {
			dst = m.appendPiece(e, dst, symbols[i].id)
		}
	}
	return m.fuse(dst, start)
}

// pushPair queues the pair of the symbol at index left and its right neighbor, if the pair has a
// rank.
func (m *bpe) pushPair(e *encoder, left int32) {
	right := e.symbols[left].next
	pair := [2]int32{e.symbols[left].id, e.symbols[right].id}
	to, ok := m.merges[pairKey(pair[0], pair[1])]
	if !ok {
		return
	}
	e.queue.push(candidate{uint64(uint32(to.rank))<<32 | uint64(uint32(left)), to.id,
		e.symbols[right].end})
	if m.pieces != nil && m.pieces.unused != nil && m.pieces.unused[to.id] {
		if e.halves == nil {
			e.halves = map[int32][2]int32{}
		}
		e.halves[to.id] = pair
	}
}

// candidate is a pair that can be merged.
type candidate struct {
	order uint64 // rank, then index of the left symbol
	id    int32  // id of the merged symbol
	end   int32  // end of the right symbol when the pair was queued
}

func (c candidate) at() int32 { return int32(uint32(c.order)) }

// mergeQueue is a binary heap with the smallest order first. It does not use container/heap, which
// would allocate memory for every element.
type mergeQueue []candidate

func (q *mergeQueue) push(c candidate) {
	h := append(*q, c)
	i := len(h) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if h[parent].order <= c.order {
			break
		}
		h[i] = h[parent]
		i = parent
	}
	h[i] = c
	*q = h
}

func (q *mergeQueue) pop() candidate {
	h := *q
	top, c := h[0], h[len(h)-1]
	h = h[:len(h)-1]
	*q = h
	if len(h) == 0 {
		return top
	}
	i := 0
	for {
		child := 2*i + 1
		if child >= len(h) {
			break
		}
		if child+1 < len(h) && h[child+1].order < h[child].order {
			child++
		}
		if c.order <= h[child].order {
			break
		}
		h[i] = h[child]
		i = child
	}
	h[i] = c
	return top
}

// wordCache caches the ids of short words. The hash of a word selects two adjacent slots. A new
// word is stored in the first slot, and the previous word there moves to the second. The cache has
// a fixed size and needs no lock, because slots are read and written atomically.
type wordCache struct {
	seed  maphash.Seed
	slots []atomic.Pointer[cachedWord] // cacheSlots of them
}

type cachedWord struct {
	word string
	ids  []int32
}

const (
	cacheSlots     = 1 << 15 // a power of two; at about 100 bytes per word, a full cache takes 3 MB
	maxCachedBytes = 64
)

func newWordCache() wordCache {
	return wordCache{maphash.MakeSeed(), make([]atomic.Pointer[cachedWord], cacheSlots)}
}

// places returns the two slots of word.
func (c *wordCache) places(word string) (first, second *atomic.Pointer[cachedWord]) {
	i := maphash.String(c.seed, word) & (cacheSlots - 1)
	return &c.slots[i], &c.slots[i^1]
}

func (c *wordCache) get(word string) ([]int32, bool) {
	if len(word) > maxCachedBytes {
		return nil, false
	}
	first, second := c.places(word)
	if p := first.Load(); p != nil && p.word == word {
		return p.ids, true
	}
	if p := second.Load(); p != nil && p.word == word {
		return p.ids, true
	}
	return nil, false
}

func (c *wordCache) put(word string, ids []int32) {
	if len(word) > maxCachedBytes {
		return
	}
	first, second := c.places(word)
	if old := first.Load(); old != nil {
		second.Store(old)
	}
	// Clone both, because word is part of a prompt and ids is part of a result.
	first.Store(&cachedWord{strings.Clone(word), slices.Clone(ids)})
}
