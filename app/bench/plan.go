package bench

// The groups of figures. Each group opens its own models in its own process, so that the memory of
// one group does not affect another.

import (
	"context"
	"fmt"

	"headroom/engine"
	"headroom/engine/problem"
)

// Shape is the config of a model that gets random weights.
type Shape struct {
	Name   string
	Config []byte // config.json
}

// Plan says what is measured and how often. All fields up to Repeat are required, except Threads.
type Plan struct {
	Dense, MoE Shape
	Device     string // as in engine.Options
	Threads    int    // as in engine.Options; 0: one per performance core
	Prompts    []int  // lengths of uncached prompts, in tokens
	Contexts   []int  // context lengths to decode at, ascending
	Streams    []int  // numbers of streams that decode together
	Tokens     int    // length of an answer
	Repeat     int    // samples of each figure; its value is their median
	// Ceilings are this machine's; nil: they are measured before and after each sample.
	Ceilings *Ceilings
	// Checkpoint is a folder with the dense model, for the group Load.
	Checkpoint string
	// Say is called with a description of the next measurement. It must not block. May be nil.
	Say func(what string)
}

// Group is a part of the table that can be measured separately.
type Group struct {
	Name, What string
	run        func(*run) error
}

// Groups are all groups, in the order of the table.
var Groups = []Group{
	{"dense", "prefill and decode with the default cache",
		func(r *run) error { return r.dense("") }},
	{"f16", "decode with keys and values in float16",
		func(r *run) error { return r.dense("f16") }},
	{"streams", "several streams together", (*run).streams},
	{"threads", "all threads compared with one", (*run).threads},
	{"moe", "a mixture of experts with recurrent layers", (*run).mixture},
	{Load, "from a checkpoint on disk to the first token", (*run).load},
}

// Load is the group that needs a checkpoint.
const Load = "load"

// run is a group being measured.
type run struct {
	*Plan
	ctx        context.Context
	part       *Part
	yardsticks map[int]*Yardstick // by threads
	seen       []Ceilings         // readings with all threads
}

// Measure runs the group of that name in this process.
func (p *Plan) Measure(ctx context.Context, group string) (*Part, error) {
	for _, g := range Groups {
		if g.Name != group {
			continue
		}
		r := &run{Plan: p, ctx: ctx, part: &Part{Group: group}}
		defer r.close()
		err := g.run(r)
		r.part.Ceilings = r.medianCeilings()
		return r.part, err
	}
	return nil, problem.New(problem.BadRequest,
		fmt.Sprintf("There is no group %q of benchmarks", group), "",
		"Use dense, f16, streams, threads, moe or load.")
}

func (p *Plan) say(what string) {
	if p.Say != nil {
		p.Say(what)
	}
}

// open opens a model of random weights and answers a short prompt, so that the first figure
// includes no one-time work.
func (r *run) open(s Shape, o engine.Options) (*engine.Engine, error) {
	o.Device, o.ContextTokens = r.Device, max(o.ContextTokens, 256)
	o.ChunkTokens = ChunkTokens
	if o.Threads == 0 {
		o.Threads = r.Threads
	}
	e, err := engine.Open(r.ctx, engine.Random(s.Config), o)
	if err != nil {
		return nil, err
	}
	if r.part.Device == "" {
		r.part.Device = e.Info().Device
	}
	if _, err := ask(r.ctx, e, tokens(e, 999, 64), 8); err != nil {
		_ = e.Close()
		return nil, err
	}
	return e, nil
}

// add adds a row with its ceilings. cost is the minimum work for perTokens tokens, or for the whole
// figure if its unit is a time.
func (r *run) add(row Row, s samples, perTokens int, cost Cost) {
	for _, c := range s.ceilings {
		least, memoryBound := c.Time(cost)
		if least == 0 {
			continue
		}
		row.Bound = boundArithmetic
		if memoryBound {
			row.Bound = boundMemory
		}
		ceiling := float64(perTokens) / least.Seconds()
		if row.Unit == unitSeconds {
			ceiling = least.Seconds()
		}
		row.Ceilings = append(row.Ceilings, ceiling)
	}
	row.Samples, row.Value = s.values, median(s.values)
	r.put(row)
}

// put adds a row, after comparing it with its ceiling and its target.
func (r *run) put(row Row) {
	row.judge()
	r.part.Rows = append(r.part.Rows, row)
}

// repeat measures a figure Repeat times.
func (r *run) repeat(take func(i int) (float64, error)) (s samples, err error) {
	err = r.inTurn(func(i int) error {
		return r.sample(&s, func() (float64, error) { return take(i) })
	})
	return s, err
}

// inTurn calls round Repeat times, so that figures measured in one round take turns.
func (r *run) inTurn(round func(i int) error) error {
	for i := range max(r.Repeat, 1) {
		if err := round(i); err != nil {
			return err
		}
	}
	return nil
}
