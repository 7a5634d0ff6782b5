package bench

// Decoding ahead, by the number of drafts in a pass and the share of them that is right. The
// weights are random, so no drafter would be right about their answers. The benchmark decodes the
// answer plainly first, and then proposes it, with as many faults as it is told to. If the model
// has a block that drafts, or there is a draft model, that also runs, so that its time is included.
//
// Depths and acceptances take turns from pass to pass, so that other load on the machine affects
// all of them. The first quartile of the durations counts, because such load only makes passes
// longer.

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"time"

	"headroom/engine"
	"headroom/engine/problem"
)

// MaxDepth is the largest number of drafts in a pass.
const MaxDepth = 8

// Speculation says what is measured. All fields are required, except DraftShape, Threads, Free,
// WholeHead and Say.
type Speculation struct {
	Shape      Shape
	DraftShape *Shape    // of a draft model; nil: there is none
	Device     string    // as in engine.Options
	Threads    int       // as in engine.Options
	Acceptance []float64 // probabilities that a draft is right if those before it are
	Depths     []int     // numbers of drafts in a pass, 1 to MaxDepth; plain decoding is added
	Context    int       // tokens before the answer
	Tokens     int       // length of an answer: at least 2 more than the largest depth
	Passes     int       // for each acceptance and depth
	Free       bool      // drafts cost no time, as if they were looked up
	// WholeHead also measures each depth with drafts for which the model's block computes its whole
	// head, if it could choose from a shortlist of the vocabulary.
	WholeHead bool
	// Say is called with a description of the next measurement. It must not block. May be nil.
	Say func(what string)
}

// SpeculationResult has the measured speeds.
type SpeculationResult struct {
	Shape  string `json:"shape"`
	Device string `json:"device"` // for example "CPU, AVX-512 VNNI, 2 threads"
	Block  bool   `json:"block"`  // the model's own block or DraftShape has drafted
	// DraftShape is the shape of the draft model; "": there is none.
	DraftShape string             `json:"draft_shape,omitempty"`
	Rows       []SpeculationSpeed `json:"rows"` // by acceptance, then by depth
}

// SpeculationSpeed is the speed with one acceptance and depth: the tokens that a pass yields on
// average, per duration of a pass.
type SpeculationSpeed struct {
	Acceptance      float64 `json:"acceptance"`
	Depth           int     `json:"depth"`                // 0: plain decoding
	WholeHead       bool    `json:"whole_head,omitempty"` // drafts have computed the whole head
	TokensPerSecond float64 `json:"tokens_per_second"`
	Ratio           float64 `json:"ratio"`  // to plain decoding
	Right           int     `json:"right"`  // drafts of all passes
	Passes          int     `json:"passes"` // that were measured
	// ProcessorSeconds is the processor time of a token, of all threads of this process.
	ProcessorSeconds float64 `json:"processor_seconds_per_token"`
	ProcessorRatio   float64 `json:"processor_ratio"` // to plain decoding
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

// Measure measures plain decoding and each acceptance and depth. Plain passes include the keys and
// values that a block that drafts computes of each token, because such a model decodes ahead.
func (s *Speculation) Measure(ctx context.Context) (*SpeculationResult, error) {
	d := newKnownDrafts(s.Acceptance, s.Depths, s.WholeHead)
	// Drafts take only free memory, and the prompt stays cached: there is room for two sequences.
	// Half of the kept states is how many drafts a pass of a recurrent model can have.
	o := engine.Options{Device: s.Device, Threads: s.Threads, Speculate: engine.SpeculateAuto,
		Draft: d.propose, ContextTokens: max(256, s.Context+s.Tokens+2), MaxSequences: 2,
		ChunkTokens: ChunkTokens, KeptStates: 2 * MaxDepth}
	if s.DraftShape != nil {
		o.DraftModel = &engine.DraftModel{Source: engine.Random(s.DraftShape.Config),
			Name: s.DraftShape.Name, Required: true}
	}
	e, err := engine.Open(ctx, engine.Random(s.Shape.Config), o)
	if err != nil {
		return nil, err
	}
	defer e.Close()
	result := &SpeculationResult{Shape: s.Shape.Name, Device: e.Info().Device}
	if s.DraftShape != nil {
		result.DraftShape = s.DraftShape.Name
	}
	prompt := tokens(e, 1, s.Context)
	if err := s.learn(ctx, e, prompt, d); err != nil {
		return nil, err
	}
	if result.Block, err = s.hasBlock(ctx, e, prompt, d); err != nil {
		return nil, err
	}
	result.Block = result.Block && !s.Free
	d.begin(result.Block)
	for done := 0; done < s.Passes; done = d.least() {
		s.say(fmt.Sprintf("%s: %d of %d passes", s.Shape.Name, done, s.Passes))
		a, err := ask(ctx, e, prompt, s.Tokens+1)
		if err == nil {
			err = d.end(a.Usage)
		}
		if err != nil {
			return nil, err
		}
	}
	result.Rows = d.rows()
	return result, nil
}

func (s *Speculation) say(what string) {
	if s.Say != nil {
		s.Say(what)
	}
}

// learn decodes the answer plainly.
func (s *Speculation) learn(ctx context.Context, e *engine.Engine, prompt []int32,
	d *knownDrafts) error {
	stream, err := e.Submit(engine.Request{Prompt: prompt, MaxTokens: s.Tokens + 1,
		IgnoreEOS: true, Speculate: engine.SpeculateOff})
	if err != nil {
		return err
	}
	defer stream.Cancel()
	known := slices.Clone(prompt)
	for {
		event, err := stream.Next(ctx)
		switch {
		case err != nil:
			return err
		case event.Type == engine.Token:
			known = append(known, event.Token)
		case event.Type == engine.Done:
			d.known, d.prompt = known, len(prompt)
			return event.Err
		}
	}
}

// hasBlock reports whether the model has a block that drafts, or a draft model.
func (s *Speculation) hasBlock(ctx context.Context, e *engine.Engine, prompt []int32,
	d *knownDrafts) (bool, error) {
	d.set(blockDrafts)
	a, err := ask(ctx, e, prompt, 8) // on a GPU the first passes are plain
	return a.Usage.DraftTokens > 0, err
}

// draftState is what knownDrafts proposes.
type draftState int

const (
	noDrafts    draftState = iota
	blockDrafts            // what the model's block or the draft model drafts
	answerDrafts
)

// cell is an acceptance and a depth.
type cell struct {
	acceptance float64
	depth      int
	whole      bool // the block computes the whole head
	drawn      int  // passes that were planned
	right      int  // right drafts in them
	seconds    []float64
	processor  []float64 // seconds of processor time
}

// knownDrafts proposes a known answer, with faults, and measures the passes.
type knownDrafts struct {
	known  []int32 // the prompt and its answer
	prompt int     // length of the prompt
	random *rand.Rand

	mu    sync.Mutex
	state draftState
	block bool // the model's block runs, for its time
	cells []cell

	// The answer that is being decoded:
	planned         *cell   // of the next pass, if that is known to have drafts
	running         []*cell // the passes that run; on a GPU several plain ones follow each other
	began           time.Time
	spent           float64 // processor time until then
	proposed, right int
}

func newKnownDrafts(acceptance []float64, depths []int, whole bool) *knownDrafts {
	d := &knownDrafts{random: rand.New(rand.NewPCG(1, 2))}
	for _, p := range acceptance {
		d.cells = append(d.cells, cell{acceptance: p})
		for _, depth := range depths {
			d.cells = append(d.cells, cell{acceptance: p, depth: depth})
			if whole {
				d.cells = append(d.cells, cell{acceptance: p, depth: depth, whole: true})
			}
		}
	}
	return d
}

func (d *knownDrafts) set(s draftState) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.state = s
}

// begin begins the measurement.
func (d *knownDrafts) begin(block bool) {
	d.set(answerDrafts)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.block = block
}

// end ends an answer. It returns an error unless what was proposed was verified, and the drafts
// that were right were accepted.
func (d *knownDrafts) end(u engine.Usage) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	proposed, right := d.proposed, d.right
	d.planned, d.running, d.proposed, d.right = nil, nil, 0, 0
	if u.DraftTokens != proposed || u.AcceptedTokens != right {
		return problem.New(problem.DoesNotFit, "The model cannot decode ahead as far as this",
			fmt.Sprintf("%d drafts were proposed, of which %d were right; %d were verified and %d "+
				"accepted", proposed, right, u.DraftTokens, u.AcceptedTokens),
			"Use more memory or a smaller depth.")
	}
	return nil
}

// least returns how many passes of each cell have been measured at least.
func (d *knownDrafts) least() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(slices.MinFunc(d.cells,
		func(a, b cell) int { return len(a.seconds) - len(b.seconds) }).seconds)
}

// rows returns the speeds.
func (d *knownDrafts) rows() (rows []SpeculationSpeed) {
	var plain, plainProcessor []float64 // whatever the acceptance
	for _, c := range d.cells {
		if c.depth == 0 {
			plain, plainProcessor = append(plain, c.seconds...), append(plainProcessor,
				c.processor...)
		}
	}
	for _, c := range d.cells {
		seconds, processor := c.seconds, c.processor
		if c.depth == 0 {
			seconds, processor = plain, plainProcessor
		}
		speed := c.meanYield() / firstQuartile(seconds)
		spent := firstQuartile(processor) / c.meanYield()
		rows = append(rows, SpeculationSpeed{Acceptance: c.acceptance, Depth: c.depth,
			WholeHead: c.whole, TokensPerSecond: speed, Ratio: speed * firstQuartile(plain),
			Right: c.right, Passes: len(seconds), ProcessorSeconds: spent,
			ProcessorRatio: spent / firstQuartile(plainProcessor)})
	}
	return rows
}

// firstQuartile returns the sample than which a quarter is less.
func firstQuartile(samples []float64) float64 {
	return slices.Sorted(slices.Values(samples))[len(samples)/4]
}

// propose is engine.Options.Draft. It is called at the beginning of each pass.
func (d *knownDrafts) propose(tokens []int32, running bool) *engine.Drafts {
	now, spent := time.Now(), processorSeconds()
	d.mu.Lock()
	defer d.mu.Unlock()
	switch d.state {
	case noDrafts:
		return nil
	case blockDrafts:
		return &engine.Drafts{Block: 1}
	}
	at := len(tokens)
	if running { // this pass is plain, and the next one has drafts if that is planned
		at += 2
		if len(d.running) == 0 { // the first pass
			d.began, d.spent = now, spent
		}
		d.running = append(d.running, d.choose(0))
	} else {
		d.count(now, spent)
	}
	c := d.planned
	if c == nil {
		c = d.choose(len(d.known) - at - 1) // the last token of an answer is never computed
	}
	drafts := c != nil && c.depth > 0
	switch d.planned = nil; {
	case running && drafts:
		d.planned = c
		return &engine.Drafts{Tokens: d.known[at:][:c.depth]}
	case running:
		return &engine.Drafts{}
	}
	d.running = append(d.running, c)
	if !drafts {
		return &engine.Drafts{}
	}
	return d.draw(c, at)
}

// count ends the passes that ran. Each has the same part of the time.
func (d *knownDrafts) count(now time.Time, spent float64) {
	n := float64(len(d.running))
	for _, c := range d.running {
		if c != nil {
			c.seconds = append(c.seconds, now.Sub(d.began).Seconds()/n)
			c.processor = append(c.processor, (spent-d.spent)/n)
		}
	}
	d.running, d.began, d.spent = d.running[:0], now, spent
}

// draw returns the drafts of a pass from position at on.
func (d *knownDrafts) draw(c *cell, at int) *engine.Drafts {
	right := c.draw()
	drafts := slices.Clone(d.known[at:][:c.depth])
	for i := right; i < len(drafts); i++ {
		drafts[i] = d.known[d.random.IntN(d.prompt)] // any token will do
		if drafts[i] == d.known[at+i] {
			drafts[i] ^= 1
		}
	}
	d.proposed, d.right = d.proposed+c.depth, d.right+right
	if d.block {
		return &engine.Drafts{Tokens: drafts, Block: c.depth, WholeHead: c.whole}
	}
	return &engine.Drafts{Tokens: drafts}
}

// choose returns the cell with the fewest passes, also those that run, among those with a depth up
// to most, one of them at random if there are several; nil: there is none.
func (d *knownDrafts) choose(most int) (chosen *cell) {
	fewest := 0
	for _, i := range d.random.Perm(len(d.cells)) {
		c := &d.cells[i]
		if c.depth > most {
			continue
		}
		passes := len(c.seconds)
		for _, running := range d.running {
			if running == c {
				passes++
			}
		}
		if chosen == nil || passes < fewest {
			chosen, fewest = c, passes
		}
	}
	return chosen
}

// processorSeconds returns the processor time that this process has used.
func processorSeconds() float64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}

// goldenRatio makes a sequence of numbers from 0 to 1 that is more even than a random one.
const goldenRatio = 0.6180339887498949

// draw returns how many drafts of the next pass are right. It has the distribution that it has if
// each of them is right with the same probability. In place of random numbers there is an even
// sequence, so that few passes have as large a share of right drafts as many.
func (c *cell) draw() int {
	c.drawn++
	_, u := math.Modf(float64(c.drawn) * goldenRatio)
	n := rightDrafts(c.acceptance, u, c.depth)
	c.right += n
	return n
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

// meanYield returns the tokens that a pass yields on average: one, and the right drafts.
func (c *cell) meanYield() float64 {
	yield, chance := 1.0, 1.0
	for range c.depth {
		chance *= c.acceptance
		yield += chance
	}
	return yield
}
