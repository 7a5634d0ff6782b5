package sample

import (
	"cmp"
	"math"
	"slices"
)

// Top-p, min-p and top-k each keep a prefix of the tokens in descending order of
// their logits (the lower id first on ties), so together they keep the shortest of
// the three prefixes. To find where it ends, no row is sorted: one pass sorts the
// tokens into narrow bins by their distance from the peak, counting tokens and
// probability mass; the end lies in one bin, and only that bin is sorted. The
// draw walks over the kept tokens in order of their ids, which needs no order of
// logits at all.

const (
	binsPerNat = 16
	binCount   = 64*binsPerNat + 1 // the last bin holds everything below peak - 64
)

// histogram of a row: bin b holds logits in (peak-(b+1)/binsPerNat, peak-b/binsPerNat].
type histogram struct {
	count [binCount]int32
	mass  [binCount]float64 // sum of exp(logit - peak)
}

// bin returns the bin of a logit at most as large as the peak.
func bin(peak, logit float32) int {
	if d := (peak - logit) * binsPerNat; d < binCount-1 {
		return int(d)
	}
	return binCount - 1
}

// draw draws a token by the filters and the temperature. It also returns the sum
// of exp(logit - peak) over the row if it came to know it, else 0.
func (s *Sampler) draw(logits []float32, peak float32) (token int32, sum float64) {
	p := &s.params
	u := s.rng.Float64() // one number per token, whatever the parameters
	scale := 1 / float64(p.Temperature)
	limits := p.TopP > 0 && p.TopP < 1 || p.TopK > 0 && p.TopK < len(logits) || p.MinP > 0
	if !limits {
		token, weights := s.drawAny(logits, peak, scale, u)
		if p.Temperature == 1 {
			sum = weights
		}
		return token, sum
	}
	sum = s.fill(logits, peak)
	s.keep(logits, peak, sum)
	weights := 0.0
	for _, id := range s.ids {
		weights += exp(float64(logits[id]-peak) * scale)
	}
	left := u * weights
	token = s.ids[0]
	for _, id := range s.ids {
		w := exp(float64(logits[id]-peak) * scale)
		if w == 0 {
			continue
		}
		token = id // the last token with a weight, should rounding leave a rest
		if left -= w; left < 0 {
			break
		}
	}
	return token, sum
}

// drawAny draws from the whole row: first the block that u falls into, then the
// token in it. It also returns the sum of all weights.
func (s *Sampler) drawAny(logits []float32, peak float32, scale, u float64) (token int32, weights float64) {
	s.blocks = s.blocks[:0]
	for from := 0; from < len(logits); from += blockTokens {
		w := expBlock(logits[from:min(from+blockTokens, len(logits))], peak, scale)
		s.blocks = append(s.blocks, w)
		weights += w
	}
	left := u * weights
	from := -1
	for i, w := range s.blocks {
		if w == 0 {
			continue
		}
		if from = i * blockTokens; left < w {
			break
		}
		left -= w
	}
	for i, x := range logits[from:min(from+blockTokens, len(logits))] {
		w := exp(float64(x-peak) * scale)
		if w == 0 {
			continue
		}
		token = int32(from + i) // the last token with a weight, should rounding leave a rest
		if left -= w; left < 0 {
			break
		}
	}
	return token, weights
}

// fill makes the histogram and returns the total mass.
func (s *Sampler) fill(logits []float32, peak float32) (sum float64) {
	if s.bins == nil {
		s.bins = &histogram{}
	}
	h := s.bins
	*h = histogram{}
	for _, x := range logits {
		b := bin(peak, x)
		h.count[b]++
		h.mass[b] += exp(float64(x - peak))
	}
	for _, m := range h.mass {
		sum += m
	}
	return sum
}

// keep leaves in s.ids the tokens that pass the filters, in order of their ids.
func (s *Sampler) keep(logits []float32, peak float32, sum float64) {
	p := &s.params
	k := len(logits)
	if p.TopK > 0 {
		k = min(p.TopK, k)
	}
	mass := math.Inf(1) // tokens are kept while those before them have less
	if p.TopP > 0 && p.TopP < 1 {
		mass = float64(p.TopP) * sum
	}
	floor := math.Inf(-1)
	if p.MinP > 0 {
		floor = float64(peak) + math.Log(float64(p.MinP))
	}
	// Whole bins that are kept, as far as top-k and top-p are concerned.
	h := s.bins
	cut, before, kept := 0, 0.0, 0
	for cut < binCount-1 && kept+int(h.count[cut]) < k && before+h.mass[cut] < mass {
		kept, before = kept+int(h.count[cut]), before+h.mass[cut]
		cut++
	}
	s.collect(logits, peak, cut, floor)
	if kept+len(s.edge) <= k && math.IsInf(mass, 1) {
		return // the edge passes as a whole
	}
	slices.SortFunc(s.edge, func(a, b int32) int {
		if c := cmp.Compare(logits[b], logits[a]); c != 0 {
			return c
		}
		return cmp.Compare(a, b)
	})
	n := 0
	for n < len(s.edge) && kept+n < k && before < mass {
		before += exp(float64(logits[s.edge[n]] - peak))
		n++
	}
	s.dropFrom(logits, n)
}

// collect puts into s.ids the tokens in bins up to cut and not below floor, and
// into s.edge those of them in the bin cut. Masked tokens are never kept.
func (s *Sampler) collect(logits []float32, peak float32, cut int, floor float64) {
	s.ids, s.edge = s.ids[:0], s.edge[:0]
	least := max(floor, float64(peak)-float64(cut+1)/binsPerNat-1e-3*math.Abs(float64(peak))-1e-3) // roughly the bin's end
	if cut == binCount-1 {
		least = max(floor, -math.MaxFloat32)
	}
	least32 := float32(math.Nextafter(least, math.Inf(-1)))
	for i, x := range logits {
		if x < least32 || float64(x) < floor {
			continue
		}
		b := bin(peak, x)
		if b > cut || math.IsInf(float64(x), -1) {
			continue
		}
		s.ids = append(s.ids, int32(i))
		if b == cut {
			s.edge = append(s.edge, int32(i))
		}
	}
}

// dropFrom removes from s.ids the edge tokens from place n of the sorted edge on.
func (s *Sampler) dropFrom(logits []float32, n int) {
	if n == len(s.edge) {
		return
	}
	first := s.edge[n]
	limit := logits[first]
	s.ids = slices.DeleteFunc(s.ids, func(id int32) bool {
		return logits[id] < limit || logits[id] == limit && id >= first
	})
}
