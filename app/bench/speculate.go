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
	Tokens     int       // length of an answer
	Repeat     int       // samples of each figure; its value is their median
	Free       bool      // drafts cost no time, as if they were looked up
	// Say is called with a description of the next measurement. It must not block. May be nil.
	Say func(what string)
}

// SpeculationResult has the measured speeds, in tokens per second.
type SpeculationResult struct {
	Shape  string
	Device string             // for example "CPU, AVX-512 VNNI, 2 threads"
	Block  bool               // the model's own block has drafted
	Plain  float64            // median of plain decoding
	Rows   []SpeculationSpeed // by acceptance, then by depth
}

// SpeculationSpeed is the speed with one acceptance and depth.
type SpeculationSpeed struct {
	Acceptance float64
	Depth      int
	Speed      float64 // median
	Ratio      float64 // median of the ratios to the plain decoding of the same round
	Drafts     int     // in one answer
	Accepted   int     // of these
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

func (s *Speculation) rounds(ctx context.Context, plain, ahead *engine.Engine, d *knownDrafts,
	result *SpeculationResult) error {
	for _, p := range s.Acceptance {
		for _, depth := range s.Depths {
			result.Rows = append(result.Rows, SpeculationSpeed{Acceptance: p, Depth: depth})
		}
	}
	var base []float64
	speeds, ratios := make([][]float64, len(result.Rows)), make([][]float64, len(result.Rows))
	for range max(s.Repeat, 1) {
		for i := range result.Rows {
			row := &result.Rows[i]
			if i%len(s.Depths) == 0 { // each acceptance is compared with a plain run of its own
				s.say(fmt.Sprintf("%s: drafts of which %.2g are right", s.Shape.Name,
					row.Acceptance))
				a, err := ask(ctx, plain, d.answer[:d.prompt], s.Tokens+1)
				if err != nil {
					return err
				}
				base = append(base, a.Timing.DecodeTokensPerSecond())
			}
			block := 0
			if result.Block {
				block = row.Depth
			}
			d.set(row.Acceptance, row.Depth, block)
			a, err := ask(ctx, ahead, d.answer[:d.prompt], s.Tokens+1)
			if err == nil {
				err = d.check(a.Usage)
			}
			if err != nil {
				return err
			}
			row.Drafts, row.Accepted = a.Usage.DraftTokens, a.Usage.AcceptedTokens
			speed := a.Timing.DecodeTokensPerSecond()
			speeds[i] = append(speeds[i], speed)
			ratios[i] = append(ratios[i], speed/base[len(base)-1])
		}
	}
	result.Plain = median(base)
	for i := range result.Rows {
		result.Rows[i].Speed, result.Rows[i].Ratio = median(speeds[i]), median(ratios[i])
	}
	return nil
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
	passes     int
	proposed   int
}

// set begins a measurement.
func (d *knownDrafts) set(acceptance float64, depth, block int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.acceptance, d.depth, d.block, d.passes, d.proposed = acceptance, depth, block, 0, 0
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
	if n <= 0 || len(tokens) < d.prompt {
		return &engine.Drafts{}
	}
	_, u := math.Modf(float64(d.passes+1) * goldenRatio)
	d.passes++
	d.proposed += n
	right := rightDrafts(d.acceptance, u, n)
	drafts := append([]int32{}, d.answer[len(tokens):][:n]...)
	for i := right; i < n; i++ {
		drafts[i] = d.answer[(i+d.passes)%d.prompt] // any token will do
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
