package attention

// Selecting positions (SnapKV): decoding at the end of a long prompt reads the keys and values of
// all positions for every token, although most have next to no weight. The last queries of the
// prompt say which ones have.

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"headroom/kernels"
)

// Select selects the positions of a sequence that rows after its prompt attend to, and copies their
// keys and values to other pages (Li et al. 2024, "SnapKV: LLM Knows What You are Looking for
// Before Generation"). The keys and values of the whole prompt must be in the cache.
//
//	weight[h, j] = sum over the observed rows m and the query heads of KV head h
//	               of softmax_j(Scale * q[m] . k[j]), over all positions up to that of m
//	score[h, j]  = sum of weight[h, i] for i in [j-2, j+2] and in [First, From)
//
// Each KV head selects the Compact.Tokens positions of [First, From) with the highest scores; of
// equal ones the first. A copy has the same bits as the original, and copies are in ascending order
// of positions. So if all positions are selected, attention to the copy has the bits of attention
// to the original.
//
// Scores are float32, and quantized keys are read as float32. The order of every sum is fixed: over
// a segment by online softmax, over segments in order, then over rows and heads. So the selection
// does not depend on threads, nor on the other rows of the batch.
type Select struct {
	Q     kernels.Tensor // float32 [M, H*D], as for Attention
	Cache *Cache
	Span  kernels.Span // Span.Selects() is true
	Scale float32
	Cap   float32 // of the scores; 0 means none

	attention Attention // the observed rows
	span      kernels.Span
	selection
}

// selection is the memory of a Select, in scratch that threads share.
type selection struct {
	keys    []uint64  // [KVH, n]: scores and positions, n = From - First
	records []float32 // [segments, KVH, vectors, 2]: the highest score and the sum of exponentials
	totals  []float32 // [KVH, vectors, 2]: the highest score and the inverse of that sum
	weights []float32 // [KVH, n]
	chosen  []int32   // [KVH, Tokens], ascending
}

// poolReach is how many neighbours on each side count for the score of a position. A position is
// hardly of use without those around it.
const poolReach = 2

// Name implements kernels.Op.
func (o *Select) Name() string { return "select" }

// Check implements kernels.Op.
func (o *Select) Check() error {
	if err := o.Cache.check(); err != nil {
		return err
	}
	s := &o.Span
	if !s.Selects() {
		return fmt.Errorf("span: got rows at [%d, %d), expected the end of a prompt with a "+
			"selection", s.Pos, s.Pos+s.Rows)
	}
	c, p, start := s.Compact, o.Cache.PageTokens, o.Cache.Start.Tokens
	if c.Observe < 1 || c.Observe > s.Rows {
		return fmt.Errorf("span: got %d rows, expected the %d whose queries select", s.Rows,
			c.Observe)
	}
	if (c.First|c.From|c.Tokens)%p != 0 || c.First < start || c.Tokens < p ||
		c.First+c.Tokens > c.From || c.From >= c.Prompt || len(c.Pages)*p != c.Tokens {
		return fmt.Errorf("span: got %d positions of [%d, %d) in %d pages of %d, expected whole "+
			"pages after the start of %d and before %d", c.Tokens, c.First, c.From, len(c.Pages),
			p, start, c.Prompt)
	}
	low, high := o.Cache.Start.Pages, o.Cache.Pages()
	if i := slices.IndexFunc(c.Pages, func(p int32) bool {
		return int(p) < low || int(p) >= high
	}); i >= 0 {
		return fmt.Errorf("span: got page %d for the selection, expected one of [%d, %d)",
			c.Pages[i], low, high)
	}
	o.observe()
	return errors.Join(
		kernels.CheckShape("q", o.Q, kernels.F32, -1, -1),
		o.attention.Check())
}

// observe sets the attention of the observed rows. Nothing is written to its output.
func (o *Select) observe() {
	_, o.span = o.Span.Split(o.Span.Rows - o.Span.Compact.Observe)
	o.attention = Attention{Q: o.Q, Out: o.unused(), Cache: o.Cache, Scale: o.Scale, Cap: o.Cap,
		exact: true}
	o.attention.Spans = append(o.attention.Spans, o.span)
}

// unused returns a tensor of the shape of the attention's output.
func (o *Select) unused() kernels.Tensor {
	out := o.Q
	if o.Cache.latent() {
		out.Cols = o.Q.Cols / o.Cache.HeadDim * o.Cache.ValueDim
	}
	return out
}

// Reference implements kernels.Op with a plain softmax in float64.
func (o *Select) Reference() {
	o.observe()
	c, a := o.span.Compact, &o.attention
	for kvHead := range o.Cache.KVHeads {
		weights := make([]float64, c.Prompt)
		for r := range o.span.Rows {
			for h := kvHead * a.group(); h < (kvHead+1)*a.group(); h++ {
				o.addReference(weights, r, h)
			}
		}
		order := make([]int32, 0, c.From-c.First)
		for pos := c.First; pos < c.From; pos++ {
			order = append(order, int32(pos))
		}
		score := func(pos int32) (sum float64) {
			for i := max(c.First, int(pos)-poolReach); i < min(c.From, int(pos)+poolReach+1); i++ {
				sum += weights[i]
			}
			return sum
		}
		slices.SortStableFunc(order, func(a, b int32) int {
			if x, y := score(a), score(b); x != y {
				return map[bool]int{true: -1, false: 1}[x > y]
			}
			return 0
		})
		chosen := order[:c.Tokens]
		slices.Sort(chosen)
		o.copy(kvHead, chosen, 0, c.Tokens)
	}
}

// addReference adds the softmax weights of query head h of observed row r.
func (o *Select) addReference(weights []float64, r, h int) {
	a, d := &o.attention, o.Cache.HeadDim
	scores, key := make([]float64, o.span.Pos+r+1), make([]float32, d)
	highest, total := math.Inf(-1), 0.0
	for j := range scores {
		o.Cache.keys(j).read(key, o.span.Pages, h/a.group(), j)
		for i, x := range o.Q.Row(o.span.Row + r)[h*d:][:d] {
			scores[j] += float64(x) * float64(key[i])
		}
		scores[j] *= float64(o.Scale)
		if most := float64(o.Cap); most > 0 {
			scores[j] = most * math.Tanh(scores[j]/most)
		}
		highest = max(highest, scores[j])
	}
	for _, s := range scores {
		total += math.Exp(s - highest)
	}
	for j, s := range scores {
		weights[j] += math.Exp(s-highest) / total
	}
}
