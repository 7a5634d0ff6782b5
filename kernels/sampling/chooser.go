package sampling

// Choosing on the CPU, one row at a time. Rows are not sorted. One pass counts tokens and their
// mass in narrow bins by distance from the largest logit, the peak. The last token that the filters
// keep is in one of these bins, and only that bin is sorted. Sampling then visits the kept tokens
// in order of their ids.

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
)

const (
	binsPerNat  = 16
	binCount    = 64*binsPerNat + 1 // the last bin holds all logits below peak - 64
	blockTokens = 1024              // tokens per block if there are no filters
)

// Chooser chooses tokens on the CPU and reuses its memory. The zero value is ready to use. Its
// memory grows to 4 bytes per token of the vocabulary, and then it does not allocate. It is not
// safe for concurrent use.
type Chooser struct {
	bins   *histogram // nil until a filter needs it
	blocks []uint64   // weight of each block if there are no filters
	ids    []int32    // candidates, ascending
	edge   []int32    // candidates in the bin where a filter ends
}

// histogram counts the logits of a row. Bin b has logits in (peak-(b+1)/binsPerNat,
// peak-b/binsPerNat].
type histogram struct {
	count [binCount]uint32
	mass  [binCount]uint64 // at temperature 1
}

// bin returns the bin of a logit that is at most peak.
func bin(peak, logit float32) int {
	if d := (peak - logit) * binsPerNat; d < binCount-1 {
		return int(d)
	}
	return binCount - 1
}

// Choice is the result of Chooser.Choose.
type Choice struct {
	Token int32 // the chosen token, or a fault (see Fault)
	Best  int32 // the most likely token, or the same fault
	// Mass is the sum of exp(logit - largest logit) over the row in units of 1/UnitWeight, or 0 if
	// choosing did not need it.
	Mass uint64
}

// Choose chooses from a row of fewer than 2^23 logits.
func (c *Chooser) Choose(logits []float32, s Settings) Choice {
	best := argmax(logits)
	l := s.limits(len(logits))
	if best < 0 || l.scale == 0 {
		return Choice{Token: best, Best: best}
	}
	peak := logits[best]
	if !l.filters(len(logits)) {
		token, sum := c.drawAny(logits, peak, &l)
		if l.scale != log2e {
			sum = 0
		}
		return Choice{token, best, sum}
	}
	mass := c.fill(logits, peak)
	c.keep(logits, peak, &l, mass)
	sum := uint64(0)
	for _, id := range c.ids {
		sum += weight(peak-logits[id], l.scale)
	}
	left, _ := bits.Mul64(l.random, sum)
	for _, id := range c.ids {
		w := weight(peak-logits[id], l.scale)
		if left < w {
			return Choice{id, best, mass}
		}
		left -= w
	}
	panic("sampling: Chooser.Choose: a row was changed while a token was chosen")
}

// Keep returns the tokens that pass the filters of s, in order of their ids, and the most likely
// one, or a fault. The tokens are valid until the next call of a method.
func (c *Chooser) Keep(logits []float32, s Settings) (ids []int32, best int32) {
	best = argmax(logits)
	if best < 0 {
		return nil, best
	}
	l := s.limits(len(logits))
	c.keep(logits, logits[best], &l, c.fill(logits, logits[best]))
	return c.ids, best
}

// drawAny samples from the whole row. It finds the block that the random number falls into, and
// then the token in it.
func (c *Chooser) drawAny(logits []float32, peak float32, l *limits) (token int32, sum uint64) {
	c.blocks = c.blocks[:0]
	for from := 0; from < len(logits); from += blockTokens {
		w := uint64(0)
		for _, x := range logits[from:min(from+blockTokens, len(logits))] {
			w += weight(peak-x, l.scale)
		}
		c.blocks = append(c.blocks, w)
		sum += w
	}
	left, _ := bits.Mul64(l.random, sum)
	block := 0
	for ; left >= c.blocks[block]; block++ {
		left -= c.blocks[block]
	}
	for i := block * blockTokens; ; i++ {
		w := weight(peak-logits[i], l.scale)
		if left < w {
			return int32(i), sum
		}
		left -= w
	}
}

// fill computes the histogram and returns the total mass.
func (c *Chooser) fill(logits []float32, peak float32) (sum uint64) {
	if c.bins == nil {
		c.bins = &histogram{}
	}
	h := c.bins
	*h = histogram{}
	for _, x := range logits {
		b := bin(peak, x)
		h.count[b]++
		h.mass[b] += weight(peak-x, log2e)
	}
	for _, m := range h.mass {
		sum += m
	}
	return sum
}

// keep leaves in c.ids the tokens that pass the filters, in order of their ids.
func (c *Chooser) keep(logits []float32, peak float32, l *limits, mass uint64) {
	limit := l.massLimit(mass)
	// Count the whole bins that top-k and top-p keep.
	h := c.bins
	cut, before, kept := 0, uint64(0), uint32(0)
	for cut < binCount-1 && kept+h.count[cut] < l.topK && before+h.mass[cut] < limit {
		kept, before = kept+h.count[cut], before+h.mass[cut]
		cut++
	}
	c.collect(logits, peak, cut, l.reach)
	if kept+uint32(len(c.edge)) <= l.topK && limit == math.MaxUint64 {
		return // all tokens of the edge are kept
	}
	slices.SortFunc(c.edge, func(a, b int32) int {
		if c := cmp.Compare(logits[b], logits[a]); c != 0 {
			return c
		}
		return cmp.Compare(a, b)
	})
	n := 0
	for n < len(c.edge) && kept+uint32(n) < l.topK && before < limit {
		before += weight(peak-logits[c.edge[n]], log2e)
		n++
	}
	c.dropFrom(logits, n)
}

// collect sets c.ids to the tokens in bins up to cut whose logits are at least peak - reach, and
// c.edge to those in bin cut. Masked tokens are out of reach.
func (c *Chooser) collect(logits []float32, peak float32, cut int, reach float32) {
	c.ids, c.edge = c.ids[:0], c.edge[:0]
	far := float32(math.MaxFloat32)
	if cut < binCount-1 {
		far = float32(cut+1) / binsPerNat // the end of the bin, exact
	}
	far = min(far, reach)
	for i, x := range logits {
		if !(peak-x <= far) {
			continue
		}
		b := bin(peak, x)
		if b > cut {
			continue
		}
		c.ids = append(c.ids, int32(i))
		if b == cut {
			c.edge = append(c.edge, int32(i))
		}
	}
}

// dropFrom removes the tokens from index n of the sorted edge on from c.ids.
func (c *Chooser) dropFrom(logits []float32, n int) {
	if n == len(c.edge) {
		return
	}
	first := c.edge[n]
	limit := logits[first]
	c.ids = slices.DeleteFunc(c.ids, func(id int32) bool {
		return logits[id] < limit || logits[id] == limit && id >= first
	})
}
