package sample

// The random number of a draw depends only on the request's seed and the token's position, so a
// seed gives the same answer on every device.

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"headroom/kernels/sampling"
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
	Top     []TokenLogprob // the most likely tokens, in order; valid until the next Sample
}

// Sampler chooses the tokens of one sequence. It is not safe for concurrent use.
// After its buffers have grown (at most 4·V bytes), Sample allocates nothing.
type Sampler struct {
	params   Params
	vocab    int
	seed     uint64
	observed uint64 // tokens of the sequence
	biases   []sampling.LogitBias
	recent   []penaltyWindow
	repeats  *repeats   // for DRY; nil: off
	xtc      *exclusion // nil: off
	sequence []int32    // the tokens observed, for params.Custom
	mask     []uint64   // tokens that may be chosen; nil: all
	masked   bool       // some tokens have a mask
	chooser  sampling.Chooser
	top      []TokenLogprob
}

// New returns a Sampler for rows of vocab logits. The parameters must be valid
// (Params.Validate). DRY and XTC ask for tokens by their texts; tokens may be nil if there are
// none such.
func New(params Params, vocab int, tokens Tokens) *Sampler {
	s := &Sampler{params: params, vocab: vocab, seed: rand.Uint64(), recent: params.windows(),
		repeats: newRepeats(params.DRY, tokens), xtc: newExclusion(&params, tokens)}
	if params.Seed != nil {
		s.seed = *params.Seed
	}
	for _, id := range slices.Sorted(maps.Keys(params.LogitBias)) {
		s.biases = append(s.biases, sampling.LogitBias{Token: id, Value: params.LogitBias[id]})
	}
	return s
}

// Tokens finds tokens by their texts. Masks have the form of Sampler.SetMask.
type Tokens interface {
	// Containing returns the tokens whose text contains one of texts.
	Containing(texts []string) []uint64
	// Ends returns the tokens that end an answer or a line.
	Ends() []uint64
}

// has reports whether a mask has a token.
func has(mask []uint64, token int32) bool {
	i := int(token) / 64
	return token >= 0 && i < len(mask) && mask[i]>>(token%64)&1 != 0
}

// Observe adds a token of the sequence. It must be called with each token of the prompt, then with
// each generated one.
func (s *Sampler) Observe(token int32) {
	s.observed++
	if s.params.Custom.IsSet() {
		s.sequence = append(s.sequence, token)
	}
	for i := range s.recent {
		s.recent[i].push(token)
	}
	if s.repeats != nil {
		s.repeats.push(token)
	}
}

// Constrain says that SetMask will restrict some tokens, so that the host must choose them.
func (s *Sampler) Constrain() { s.masked = true }

// SetMask restricts the next tokens to those whose bits are set in mask: token t has bit t%64 of
// element t/64. Nil allows all. Tokens beyond the mask are not allowed.
func (s *Sampler) SetMask(mask []uint64) { s.mask = mask }

// Sample chooses the token after those observed. It may change logits, a row of shape [V]. A
// token may be masked by a logit of -Inf; NaN, +Inf, or a row without any finite logit is
// an error, as only a broken model produces them.
func (s *Sampler) Sample(logits []float32) (Result, error) {
	if len(logits) != s.vocab {
		panic(fmt.Sprintf("sample.Sampler.Sample: got %d logits, the Sampler was made for %d: "+
			"pass one full row", len(logits), s.vocab))
	}
	s.adjust(logits)
	choice := s.choose(logits)
	if err := sampling.Fault(choice.Token); err != nil {
		return Result{}, err
	}
	if s.params.Custom.Choose != nil {
		var err error
		if choice.Token, err = s.ask(logits); err != nil {
			return Result{}, err
		}
	}
	out := Result{Token: choice.Token}
	if s.params.Logprobs < 0 {
		return out, nil
	}
	peak := logits[choice.Best]
	sum := float64(choice.Mass) / sampling.UnitWeight
	if choice.Mass == 0 {
		sum = expSum(logits, peak, 1)
	}
	norm := float64(peak) + math.Log(sum)
	out.Logprob = float32(float64(logits[out.Token]) - norm)
	if n := s.params.Logprobs; n > 0 {
		s.top = topLogits(s.top[:0], logits, min(n, s.vocab))
		for len(s.top) > 0 && math.IsInf(float64(s.top[len(s.top)-1].Logprob), -1) {
			s.top = s.top[:len(s.top)-1] // masked
		}
		for i := range s.top {
			s.top[i].Logprob = float32(float64(s.top[i].Logprob) - norm)
		}
		out.Top = s.top
	}
	return out, nil
}

// choose chooses a token from adjusted logits, which it does not change.
func (s *Sampler) choose(logits []float32) sampling.Choice {
	settings := s.settings(s.observed)
	if s.xtc == nil || !s.xtc.falls(s.seed, s.observed) {
		return s.chooser.Choose(logits, settings)
	}
	return s.xtc.choose(&s.chooser, logits, settings)
}

// settings returns the settings for the token at a position of the sequence.
func (s *Sampler) settings(position uint64) sampling.Settings {
	p := &s.params
	return sampling.Settings{Temperature: p.Temperature, TopK: p.TopK, TopP: p.TopP, MinP: p.MinP,
		Random: random(s.seed, position)}
}

// random returns the random number for a seed and a position: an output of SplitMix64 (Steele, Lea
// and Flood 2014, "Fast Splittable Pseudorandom Number Generators"). The seed is mixed too, since
// users choose small seeds.
func random(seed, position uint64) uint64 {
	mix := func(z uint64) uint64 {
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		return z ^ z>>31
	}
	const gamma = 0x9e3779b97f4a7c15
	return mix(mix(seed+gamma) + (position+1)*gamma)
}

// adjust applies the logit biases and the penalties.
func (s *Sampler) adjust(logits []float32) {
	for _, b := range s.biases {
		if b.Token >= 0 && int(b.Token) < len(logits) {
			logits[b.Token] += b.Value
		}
	}
	for i := range s.recent {
		w := &s.recent[i]
		for id, count := range w.counts {
			if id >= 0 && int(id) < len(logits) {
				logits[id] = w.penalties.Apply(logits[id], count)
			}
		}
	}
	if s.repeats != nil {
		s.repeats.lower(logits)
	}
	if s.params.Custom.Process != nil {
		s.params.Custom.Process(s.sequence, logits)
	}
	if s.mask != nil {
		applyMask(logits, s.mask)
	}
}

// applyMask sets the logits of all tokens outside of the mask to -Inf. NaN and +Inf stay, so that a
// broken model is still found.
func applyMask(logits []float32, mask []uint64) {
	none := float32(math.Inf(-1))
	for i := range logits {
		if has(mask, int32(i)) {
			continue
		}
		if x := logits[i]; x == x && x <= math.MaxFloat32 {
			logits[i] = none
		}
	}
}

// topLogits appends the n largest logits, largest first. On ties the lower id is first. The field
// Logprob holds the logit.
func topLogits(top []TokenLogprob, logits []float32, n int) []TokenLogprob {
	floor := float32(math.Inf(-1)) // a full list takes only larger logits
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
