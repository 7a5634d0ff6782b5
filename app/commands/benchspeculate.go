package commands

// What decoding ahead yields, by the number of drafts in a pass and the share of them that is
// right, for models that are not on this machine. The weights are random, so the benchmark itself
// proposes the answer, with faults.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"text/tabwriter"

	"headroom/app/bench"
	"headroom/engine"
	"headroom/engine/problem"
)

// BenchSpeculate is `headroom bench speculate`.
type BenchSpeculate struct {
	Shapes     []string  `arg:"" optional:"" name:"shape" help:"Shapes of public models, or paths of a config.json; see headroom bench speed. Default: qwen3-0.6b, qwen3_5_moe-2b and qwen3_5-27b-8-layers."`
	DraftModel string    `help:"Shape of a draft model, whose time is included, with the same vocab_size." placeholder:"SHAPE"`
	Acceptance []float64 `help:"Probabilities that a draft is right if those before it are." default:"0.5,0.7,0.8,0.9"`
	Depths     []int     `help:"Numbers of drafts in a pass." default:"1,2,3,4,5,6,7,8"`
	Context    int       `help:"Tokens before the answer." default:"16"`
	Tokens     int       `help:"Tokens to decode per answer." default:"64"`
	Passes     int       `help:"Passes to measure for each figure; the first quartile of their durations counts." default:"20"`
	Free       bool      `help:"Drafts cost no time, as if they were looked up. Default: if the model has a block that drafts, its time is included."`
	WholeHead  bool      `help:"Also measure drafts for which the block computes its whole head, where it could choose from a shortlist of the vocabulary."`
	Threads    int       `help:"Compute threads. Default: one per performance core."`
	Processor  bool      `help:"Also print the processor time of a token, compared with plain decoding."`
	JSON       bool      `name:"json" help:"Print the figures as JSON."`
	DeviceFlag
}

// Validate rejects what cannot be measured. kong calls it.
func (c *BenchSpeculate) Validate() error {
	if len(c.Acceptance) == 0 || len(c.Depths) == 0 {
		return errors.New("--acceptance and --depths need a number")
	}
	for _, p := range c.Acceptance {
		if !(p >= 0 && p <= 1) {
			return fmt.Errorf("--acceptance is %g, expected 0 to 1", p)
		}
	}
	for _, n := range c.Depths {
		if n < 1 || n > bench.MaxDepth {
			return fmt.Errorf("--depths is %d, expected 1 to %d", n, bench.MaxDepth)
		}
	}
	switch {
	case c.Tokens < slices.Max(append(c.Depths, 1))+2:
		return fmt.Errorf("--tokens is %d, expected at least 2 more than --depths", c.Tokens)
	case c.Context < 1:
		return fmt.Errorf("--context is %d, expected 1 or more", c.Context)
	case c.Passes < 1:
		return fmt.Errorf("--passes is %d, expected 1 or more", c.Passes)
	}
	return checkThreads(c.Threads)
}

// Run prints a table per shape.
func (c *BenchSpeculate) Run(ctx context.Context, t *terminal) error {
	if len(c.Shapes) == 0 {
		c.Shapes = []string{"qwen3-0.6b", "qwen3_5_moe-2b", "qwen3_5-27b-8-layers"}
	}
	if err := c.checkShapes(); err != nil {
		return err
	}
	if err := c.choose(ctx); err != nil {
		return err
	}
	var results []*bench.SpeculationResult
	for _, name := range c.Shapes {
		r, err := c.measure(ctx, t, name)
		if err != nil {
			return err
		}
		results = append(results, r)
		if !c.JSON {
			c.print(t.out, r)
		}
	}
	if c.JSON {
		return printJSON(t.out, results)
	}
	return nil
}

// checkShapes returns an error unless the draft model can draft for all shapes. A wrong one is
// refused before anything is measured.
func (c *BenchSpeculate) checkShapes() error {
	if c.DraftModel == "" {
		return nil
	}
	drafts, err := c.draftShape()
	for i := 0; i < len(c.Shapes) && err == nil; i++ {
		var shape bench.Shape
		if shape, err = shapeOf(c.Shapes[i]); err == nil {
			err = engine.CheckShapes(engine.Random(drafts.Config), drafts.Name,
				engine.Random(shape.Config), shape.Name)
		}
	}
	return err
}

// draftShape returns the shape of the draft model.
func (c *BenchSpeculate) draftShape() (bench.Shape, error) {
	config, err := configOf(c.DraftModel)
	if err == nil && engine.IsDrafter(engine.Random(config)) {
		return bench.Shape{}, problem.New(problem.BadRequest, "The benchmark cannot measure "+
			c.DraftModel, "it is a drafter that becomes a part of its model, and only the time of "+
			"a draft model with weights of its own can be measured with random weights",
			"Leave out --draft-model, or name a smaller model with the same vocabulary. Loaded "+
				"with its model, headroom run shows what the drafter gains.")
	}
	return shapeOf(c.DraftModel)
}

func (c *BenchSpeculate) measure(ctx context.Context, t *terminal,
	name string) (*bench.SpeculationResult, error) {
	shape, err := shapeOf(name)
	if err != nil {
		return nil, err
	}
	var draft *bench.Shape
	if c.DraftModel != "" {
		d, err := c.draftShape()
		if err != nil {
			return nil, err
		}
		draft = &d
	}
	s := bench.Speculation{Shape: shape, DraftShape: draft,
		Device: c.Device, Threads: c.Threads,
		Acceptance: c.Acceptance, Depths: slices.Sorted(slices.Values(c.Depths)),
		Context: c.Context, Tokens: c.Tokens, Passes: c.Passes, Free: c.Free,
		WholeHead: c.WholeHead,
		Say:       func(what string) { fmt.Fprintln(t.err, what) }}
	return s.Measure(ctx)
}

// print prints a table with a row per depth and two columns per acceptance.
func (c *BenchSpeculate) print(out io.Writer, r *bench.SpeculationResult) {
	how := "drafts cost no time"
	switch {
	case r.Block && r.DraftShape != "":
		how = r.DraftShape + " drafts"
	case r.Block:
		how = "the model's own block drafts"
	}
	fmt.Fprintf(out, "%s, random weights; %s, %d cores, %s; %s\n", r.Shape, runtime.GOARCH,
		runtime.NumCPU(), r.Device, how)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	c.printRows(w, r, "tokens/s with so many drafts right", func(s bench.SpeculationSpeed) string {
		return fmt.Sprintf("%.1f\t%.2f x", s.TokensPerSecond, s.Ratio)
	})
	fmt.Fprint(w, "best")
	for _, p := range c.Acceptance {
		best := r.Best(p)
		fmt.Fprintf(w, "\t%s\t%.2f x", draftCount(best.Depth), best.Ratio)
	}
	fmt.Fprintln(w, "\t")
	if c.Processor {
		c.printRows(w, r, "processor ms per token", func(s bench.SpeculationSpeed) string {
			return fmt.Sprintf("%.2f\t%.2f x", 1e3*s.ProcessorSeconds, s.ProcessorRatio)
		})
	}
	w.Flush()
	fmt.Fprintln(out)
}

// printRows prints a row per depth, with two columns per acceptance.
func (c *BenchSpeculate) printRows(w io.Writer, r *bench.SpeculationResult, title string,
	cells func(bench.SpeculationSpeed) string) {
	fmt.Fprint(w, title)
	for _, p := range c.Acceptance {
		fmt.Fprintf(w, "\t%.0f %%\t", 100*p)
	}
	fmt.Fprintln(w, "\t")
	depths := len(r.Rows) / len(c.Acceptance)
	for d := range depths {
		fmt.Fprint(w, draftCount(r.Rows[d].Depth))
		if r.Rows[d].WholeHead {
			fmt.Fprint(w, ", whole head")
		}
		for i := range c.Acceptance {
			fmt.Fprint(w, "\t", cells(r.Rows[i*depths+d]))
		}
		fmt.Fprintln(w, "\t")
	}
}

// draftCount names a row by its number of drafts.
func draftCount(depth int) string {
	if depth == 0 {
		return "plain"
	}
	return count(depth, "draft")
}
