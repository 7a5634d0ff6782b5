package bench

// Decoding ahead, by the number of drafts in a pass and the share of them that is right. The
// weights are random, so no drafter would be right about their answers. The benchmark decodes the
// answer plainly first, and then proposes it, with as many faults as it is told to. If the model
// has a block that drafts, that block also runs, so that its time is included.

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"headroom/engine"
	"headroom/engine/problem"
)

// MaxDepth is the largest number of drafts that the engine verifies for one sequence.
const MaxDepth = 8

// Speculation says what is measured. All fields are required, except Threads, Free, Context and
// Say.
type Speculation struct {
	Shape      Shape
	Device     string    // as in engine.Options; only the CPU decodes ahead
	Threads    int       // as in engine.Options
	Acceptance []float64 // probabilities that a draft is right if those before it are
	Depths     []int     // numbers of drafts in a pass, 1 to MaxDepth
	Context    int       // tokens before the answer
	Tokens     int       // length of an answer: at least 2 more than the largest depth
	Repeat     int       // answers for each figure
	Free       bool      // drafts cost no time, as if they were looked up
	// Say is called with a description of the next measurement. It must not block. May be nil.
	Say func(what string)
}

// SpeculationResult has the measured speeds.
type SpeculationResult struct {
	Shape  string             `json:"shape"`
	Device string             `json:"device"` // for example "CPU, AVX-512 VNNI, 2 threads"
	Block  bool               `json:"block"`  // the model's own block has drafted
	Rows   []SpeculationSpeed `json:"rows"`   // by acceptance, then by depth
}

// SpeculationSpeed is the speed with one acceptance and depth. It is the tokens that a pass yields
// on average, per median duration of a pass, because other work on the machine makes some passes
// much longer than most.
type SpeculationSpeed struct {
	Acceptance      float64 `json:"acceptance"`
	Depth           int     `json:"depth"` // 0: plain decoding
	TokensPerSecond float64 `json:"tokens_per_second"`
	Ratio           float64 `json:"ratio"`    // to plain decoding in the same rounds
	Drafts          int     `json:"drafts"`   // in one answer
	Accepted        int     `json:"accepted"` // of these

	passes []float64 // durations in seconds
}

// Best returns the row of the highest ratio among those with an acceptance; nil: there is none.
func (r *SpeculationResult) Best(acceptance float64) (best *SpeculationSpeed) {
	for i := range r.Rows {
		row := &r.Rows[i]
		if row.Acceptance == acceptance && (best == nil || row.Ratio > best.Ratio) {
			best = row
		}
	}
	return best
}

// Measure measures plain decoding and each acceptance and depth in turn, so that other load on the
// machine affects all of them. Plain decoding has an engine of its own, without the block that
// drafts.
func (s *Speculation) Measure(ctx context.Context) (*SpeculationResult, error) {
	d := &knownDrafts{}
	plain, err := s.open(ctx, engine.Options{Speculate: engine.SpeculateOff})
	if err != nil {
		return nil, err
	}
	defer plain.Close()
	ahead, err := s.open(ctx, engine.Options{Speculate: engine.SpeculateAuto, Draft: d.propose})
	if err != nil {
		return nil, err
	}
	defer ahead.Close()
	result := &SpeculationResult{Shape: s.Shape.Name, Device: ahead.Info().Device}
	prompt := tokens(plain, 1, max(s.Context, 1))
	if d.answer, err = s.answer(ctx, plain, prompt); err != nil {
		return nil, err
	}
	d.prompt = len(prompt)
	block, err := s.hasBlock(ctx, ahead, d)
	if err != nil {
		return nil, err
	}
	result.Block = block && !s.Free
	return result, s.rounds(ctx, plain, ahead, d, result)
}

func (s *Speculation) open(ctx context.Context, o engine.Options) (*engine.Engine, error) {
	o.Device, o.Threads, o.ContextTokens = s.Device, s.Threads, max(256, s.Context+s.Tokens+2)
	// Drafts take only free memory, and the prompt stays cached: there is room for two sequences.
	// Half of the kept states is how many drafts a pass of a recurrent model can have.
	o.MaxSequences, o.ChunkTokens, o.KeptStates = 2, ChunkTokens, 2*maxOf(s.Depths)
	return engine.Open(ctx, engine.Random(s.Shape.Config), o)
}

// answer returns the prompt and its answer in plain decoding.
func (s *Speculation) answer(ctx context.Context, e *engine.Engine, prompt []int32) ([]int32,
	error) {
	stream, err := e.Submit(engine.Request{Prompt: prompt, MaxTokens: s.Tokens + 1,
		IgnoreEOS: true})
	if err != nil {
		return nil, err
	}
	defer stream.Cancel()
	known := append([]int32{}, prompt...)
	for {
		event, err := stream.Next(ctx)
		switch {
		case err != nil:
			return nil, err
		case event.Type == engine.Token:
			known = append(known, event.Token)
		case event.Type == engine.Done:
			return known, event.Err
		}
	}
}

// hasBlock reports whether the model has a block that drafts.
func (s *Speculation) hasBlock(ctx context.Context, e *engine.Engine, d *knownDrafts) (bool,
	error) {
	d.set(0, 1, 1)
	d.mu.Lock()
	d.blockOnly = true
	d.mu.Unlock()
	a, err := ask(ctx, e, d.answer[:d.prompt], 4)
	d.mu.Lock()
	d.blockOnly = false
	d.mu.Unlock()
	return a.Usage.DraftTokens > 0, err
}

// rounds measures all rows Repeat times.
func (s *Speculation) rounds(ctx context.Context, plain, ahead *engine.Engine, d *knownDrafts,
	result *SpeculationResult) error {
	for _, p := range s.Acceptance {
		result.Rows = append(result.Rows, SpeculationSpeed{Acceptance: p})
		for _, depth := range s.Depths {
			result.Rows = append(result.Rows, SpeculationSpeed{Acceptance: p, Depth: depth})
		}
	}
	for range max(s.Repeat, 1) {
		for i := range result.Rows {
			row := &result.Rows[i]
			var err error
			if row.Depth == 0 {
				s.say(fmt.Sprintf("%s: drafts of which %.2g are right", s.Shape.Name,
					row.Acceptance))
				err = s.measurePlain(ctx, plain, d, row)
			} else {
				err = s.measureAhead(ctx, ahead, d, row, result.Block)
			}
			if err != nil {
				return err
			}
		}
	}
	base := 0.0
	for i := range result.Rows {
		row := &result.Rows[i]
		row.TokensPerSecond = meanYield(row.Acceptance, row.Depth) / median(row.passes)
		if row.Depth == 0 {
			base = row.TokensPerSecond
		}
		row.Ratio = row.TokensPerSecond / base
	}
	return nil
}

// measurePlain decodes an answer of one token a pass.
func (s *Speculation) measurePlain(ctx context.Context, e *engine.Engine, d *knownDrafts,
	row *SpeculationSpeed) error {
	a, err := ask(ctx, e, d.answer[:d.prompt], s.Tokens+1)
	row.passes = append(row.passes, seconds(a.at)...)
	return err
}

// measureAhead decodes an answer with drafts.
func (s *Speculation) measureAhead(ctx context.Context, e *engine.Engine, d *knownDrafts,
	row *SpeculationSpeed, block bool) error {
	steps := 0
	if block {
		steps = row.Depth
	}
	d.set(row.Acceptance, row.Depth, steps)
	a, err := ask(ctx, e, d.answer[:d.prompt], s.Tokens+1)
	if err == nil {
		err = d.check(a.Usage)
	}
	row.Drafts, row.Accepted = a.Usage.DraftTokens, a.Usage.AcceptedTokens
	row.passes = append(row.passes, seconds(d.began)...)
	return err
}

// seconds returns the times between the given ones.
func seconds(at []time.Time) (list []float64) {
	for i := 1; i < len(at); i++ {
		list = append(list, at[i].Sub(at[i-1]).Seconds())
	}
	return list
}

// meanYield returns the tokens that a pass yields on average: one, and the right drafts.
func meanYield(acceptance float64, depth int) float64 {
	yield, chance := 1.0, 1.0
	for range depth {
		chance *= acceptance
		yield += chance
	}
	return yield
}

func (s *Speculation) say(what string) {
	if s.Say != nil {
		s.Say(what)
	}
}

// knownDrafts proposes a known answer, with faults.
type knownDrafts struct {
	answer []int32 // the prompt and its answer
	prompt int     // length of the prompt

	mu         sync.Mutex
	acceptance float64
	depth      int
	block      int  // tokens that the model's block drafts, for their time
	blockOnly  bool // the block's own drafts are verified
	turn       int  // passes of this measurement
	passes     int  // of these, passes with as many drafts as depth
	proposed   int
	began      []time.Time // of the passes with as many drafts as depth, and of the one after them
}

// set begins a measurement.
func (d *knownDrafts) set(acceptance float64, depth, block int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.acceptance, d.depth, d.block = acceptance, depth, block
	d.turn, d.passes, d.proposed, d.began = 0, 0, 0, nil
}

// check returns an error if a pass had fewer drafts than were proposed.
func (d *knownDrafts) check(u engine.Usage) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if u.DraftTokens != d.proposed {
		return problem.New(problem.DoesNotFit, "The model cannot decode ahead as far as this",
			fmt.Sprintf("%d drafts were proposed with a depth of %d, and %d verified", d.proposed,
				d.depth, u.DraftTokens), "Measure it on the CPU, with more memory or less depth.")
	}
	return nil
}

// goldenRatio makes a sequence of numbers from 0 to 1 that is more even than a random one.
const goldenRatio = 0.6180339887498949

// propose is engine.Options.Draft. The number of right drafts in a pass has the distribution that
// it has if each of them is right with the same probability. In place of random numbers there is an
// even sequence, so that a short answer has as many right drafts as a long one.
func (d *knownDrafts) propose(tokens []int32) *engine.Drafts {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.blockOnly {
		return &engine.Drafts{Block: d.block}
	}
	// The last token of an answer is never computed.
	n := min(d.depth, len(d.answer)-len(tokens)-1)
	if len(d.began) == d.passes {
		d.began = append(d.began, time.Now())
	}
	if n <= 0 || len(tokens) < d.prompt {
		return &engine.Drafts{}
	}
	d.turn++
	_, u := math.Modf(float64(d.turn) * goldenRatio)
	if n == d.depth {
		d.passes++
	}
	d.proposed += n
	right := rightDrafts(d.acceptance, u, n)
	drafts := append([]int32{}, d.answer[len(tokens):][:n]...)
	for i := right; i < n; i++ {
		drafts[i] = d.answer[(i+d.turn)%d.prompt] // any token will do
		if drafts[i] == d.answer[len(tokens)+i] {
			drafts[i] ^= 1
		}
	}
	return &engine.Drafts{Tokens: drafts, Block: d.block}
}

// rightDrafts returns the number of right drafts before the first wrong one, of n: at least k with
// the probability acceptance^k, for a u that is uniform from 0 to 1.
func rightDrafts(acceptance, u float64, n int) int {
	k := 0
	for chance := acceptance; k < n && u < chance; chance *= acceptance {
		k++
	}
	return k
}
