package sampling

// The choice on the CPU, a row at a time. No row is sorted: one pass sorts the tokens into narrow
// bins by their distance from the peak, counting tokens and mass; the end of what the filters keep
// lies in one bin, and only that bin is sorted. The draw walks over the kept tokens in order of
// their ids, which needs no order of logits at all.

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
)

const (
	binsPerNat  = 16
	binCount    = 64*binsPerNat + 1 // the last bin holds everything below peak - 64
	blockTokens = 1024              // that share a sum, where nothing is dropped
)

// Chooser is the memory of choices on the CPU. The zero value is ready; it grows to 4 bytes a token
// of the vocabulary, and allocates nothing then. It is not safe for concurrent use.
type Chooser struct {
	bins   *histogram // nil until a filter needs it
	blocks []uint64   // weights of the row's blocks, where nothing is dropped
	ids    []int32    // candidates, ascending
	edge   []int32    // candidates in the bin where a filter cuts
}

// histogram of a row: bin b holds logits in (peak-(b+1)/binsPerNat, peak-b/binsPerNat].
type histogram struct {
	count [binCount]uint32
	mass  [binCount]uint64 // at temperature 1
}

// bin returns the bin of a logit at most as large as the peak.
func bin(peak, logit float32) int {
	if d := (peak - logit) * binsPerNat; d < binCount-1 {
		return int(d)
	}
	return binCount - 1
}

// Choice is what Chooser.Choose finds in a row.
type Choice struct {
	Token int32 // or what Fault explains
	Best  int32 // the likeliest token, or the same
	// the sum of exp(logit - largest) over the row, in units of 1/UnitWeight, where it had to be
	// known, else 0
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

// drawAny draws from the whole row: first the block that the random number falls into, then the
// token in it.
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

// fill makes the histogram and returns the total mass.
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
	// Whole bins that are kept, as far as top-k and top-p are concerned.
	h := c.bins
	cut, before, kept := 0, uint64(0), uint32(0)
	for cut < binCount-1 && kept+h.count[cut] < l.topK && before+h.mass[cut] < limit {
		kept, before = kept+h.count[cut], before+h.mass[cut]
		cut++
	}
	c.collect(logits, peak, cut, l.reach)
	if kept+uint32(len(c.edge)) <= l.topK && limit == math.MaxUint64 {
		return // the edge passes as a whole
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

// collect puts into c.ids the tokens in bins up to cut and within reach of the peak, and into
// c.edge those of them in the bin cut. Masked tokens are out of reach.
func (c *Chooser) collect(logits []float32, peak float32, cut int, reach float32) {
	c.ids, c.edge = c.ids[:0], c.edge[:0]
	far := float32(math.MaxFloat32)
	if cut < binCount-1 {
		far = float32(cut+1) / binsPerNat // exact: the bin's end
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

// dropFrom removes from c.ids the edge tokens from place n of the sorted edge on.
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
