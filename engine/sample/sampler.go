package sample

// From logits to a token, in this order: bias, penalties, then the likeliest or a draw (filters included, in draw.go). Ties go
// to the lower id and the generator is seeded per request, so a seed repeats an answer; logprobs are of the adjusted logits,
// before temperature and filters.

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// TokenLogprob is a token and the natural logarithm of its probability.
type TokenLogprob struct {
	Token   int32
	Logprob float32
}

// Result is one chosen token.
type Result struct {
	Token   int32
	Logprob float32        // 0 if Params.Logprobs is -1
	Top     []TokenLogprob // likeliest first, Params.Logprobs of them; valid until the next Sample
}

// Sampler chooses the tokens of one sequence. It is not safe for concurrent use.
// After its buffers have grown (at most 4·V bytes), Sample allocates nothing.
type Sampler struct {
	params Params
	vocab  int
	rng    *rand.Rand
	recent window
	top    []TokenLogprob
	bins   *histogram // nil until a filter needs it
	blocks []float64  // weights of the row's blocks, when no filter is set
	ids    []int32    // candidates, ascending
	edge   []int32    // candidates in the bin where a filter cuts
}

// New returns a Sampler for rows of vocab logits. The parameters must be valid
// (Params.Validate); LogitBias must not be changed afterwards.
func New(params Params, vocab int) *Sampler {
	seed := rand.Uint64()
	if params.Seed != nil {
		seed = *params.Seed
	}
	s := &Sampler{params: params, vocab: vocab, rng: rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15))}
	if params.penalizes() {
		n := params.RepetitionContextTokens
		if n == 0 {
			n = DefaultContextTokens
		}
		s.recent = newWindow(n)
	}
	return s
}

// Observe tells the penalties about a token of the sequence: first each token of
// the prompt, then each generated one.
func (s *Sampler) Observe(token int32) { s.recent.push(token) }

// Sample chooses a token. It may change logits, a row of shape [V]. A token may
// be masked by a logit of -Inf; NaN, +Inf, or a row without any finite logit is
// an error, as only a broken model produces them.
func (s *Sampler) Sample(logits []float32) (Result, error) {
	if len(logits) != s.vocab {
		panic(fmt.Sprintf("sample.Sampler.Sample: got %d logits, the Sampler was made for %d: pass one full row", len(logits), s.vocab))
	}
	s.adjust(logits)
	best, err := argmax(logits)
	if err != nil {
		return Result{}, err
	}
	out := Result{Token: best}
	p := &s.params
	peak := logits[best]
	sum := 0.0 // of exp(logit - peak); computed by whoever needs it first
	if p.Temperature > 0 {
		out.Token, sum = s.draw(logits, peak)
	}
	if p.Logprobs < 0 {
		return out, nil
	}
	if sum == 0 {
		sum = expSum(logits, peak, 1)
	}
	norm := float64(peak) + math.Log(sum)
	out.Logprob = float32(float64(logits[out.Token]) - norm)
	if p.Logprobs > 0 {
		s.top = topLogits(s.top[:0], logits, min(p.Logprobs, s.vocab))
		for i := range s.top {
			s.top[i].Logprob = float32(float64(s.top[i].Logprob) - norm)
		}
		out.Top = s.top
	}
	return out, nil
}

// adjust applies the bias and the penalties.
func (s *Sampler) adjust(logits []float32) {
	p := &s.params
	for id, bias := range p.LogitBias {
		if id >= 0 && int(id) < len(logits) {
			logits[id] += bias
		}
	}
	for id, count := range s.recent.counts {
		if id < 0 || int(id) >= len(logits) {
			continue
		}
		x := logits[id]
		if r := p.RepetitionPenalty; r != 0 && r != 1 {
			if x < 0 {
				x *= r
			} else {
				x /= r
			}
		}
		logits[id] = x - p.PresencePenalty - p.FrequencyPenalty*float32(count)
	}
}

// argmax returns the largest logit's index, the lowest on ties. The comparison
// is written so that NaN takes the rare branch too, and needs no second pass.
func argmax(logits []float32) (int32, error) {
	best, peak := -1, float32(math.Inf(-1))
	consider := func(i int) bool {
		if logits[i] != logits[i] || logits[i] > math.MaxFloat32 {
			return false
		}
		best, peak = i, logits[i]
		return true
	}
	i := 0
	for ; i+8 <= len(logits); i += 8 {
		x := (*[8]float32)(logits[i:])
		if x[0] <= peak && x[1] <= peak && x[2] <= peak && x[3] <= peak &&
			x[4] <= peak && x[5] <= peak && x[6] <= peak && x[7] <= peak {
			continue
		}
		for j := range x {
			if !(x[j] <= peak) && !consider(i+j) {
				return 0, invalidLogit(logits, i+j)
			}
		}
	}
	for ; i < len(logits); i++ {
		if !(logits[i] <= peak) && !consider(i) {
			return 0, invalidLogit(logits, i)
		}
	}
	if best < 0 {
		return 0, fmt.Errorf("no token to choose: all %d logits are -Inf", len(logits))
	}
	return int32(best), nil
}

func invalidLogit(logits []float32, i int) error {
	return fmt.Errorf("the model returned the logit %v for token %d, expected finite numbers: its weights or the computation are broken", logits[i], i)
}

// topLogits appends the n largest logits, largest first, the lower id first on
// ties, with the logit in place of the logprob.
func topLogits(top []TokenLogprob, logits []float32, n int) []TokenLogprob {
	floor := float32(math.Inf(-1)) // what a logit must exceed to enter a full list
	for i, x := range logits {
		if len(top) == n && x <= floor {
			continue
		}
		if len(top) < n {
			top = append(top, TokenLogprob{})
		}
		at := len(top) - 1
		for ; at > 0 && top[at-1].Logprob < x; at-- {
			top[at] = top[at-1]
		}
		top[at] = TokenLogprob{int32(i), x}
		floor = top[len(top)-1].Logprob
	}
	return top
}

// window counts the last tokens of a sequence. The zero value counts nothing.
type window struct {
	ring   []int32
	next   int // where the next token goes
	filled int
	counts map[int32]int32
}

func newWindow(tokens int) window {
	return window{ring: make([]int32, tokens), counts: make(map[int32]int32)}
}

func (w *window) push(token int32) {
	if len(w.ring) == 0 {
		return
	}
	if w.filled < len(w.ring) {
		w.filled++
	} else if old := w.ring[w.next]; w.counts[old] > 1 {
		w.counts[old]--
	} else {
		delete(w.counts, old)
	}
	w.ring[w.next] = token
	w.counts[token]++
	if w.next++; w.next == len(w.ring) {
		w.next = 0
	}
}
