package commands

// What SnapKV yields, for models that are not on this machine.

import (
	"context"
	"fmt"
	"runtime"
	"text/tabwriter"

	"headroom/engine"
)

// BenchSnapKV is `headroom bench snapkv`.
type BenchSnapKV struct {
	Shapes   []string `arg:"" optional:"" name:"shape" help:"Shapes of public models, or paths of a config.json; see headroom bench speed. Default: qwen3_5_moe-2b."`
	Contexts []int    `help:"Lengths of prompts, in tokens." default:"32768,97280,131072"`
	Tokens   int      `help:"Positions of a prompt that are selected." default:"4096"`
	Passes   int      `help:"Passes to measure for each figure; the first quartile of their durations counts." default:"9"`
	Threads  int      `help:"Compute threads. Default: one per performance core."`
	JSON     bool     `name:"json" help:"Print the figures as JSON."`
}

// Validate rejects what cannot be measured. kong calls it.
func (c *BenchSnapKV) Validate() error {
	for _, n := range c.Contexts {
		if n < engine.LeastSnapKVContext || n < c.Tokens+engine.LeastSnapKVContext {
			return fmt.Errorf("--contexts is %d, expected at least %d more than --tokens", n,
				engine.LeastSnapKVContext)
		}
	}
	switch {
	case len(c.Contexts) == 0:
		return fmt.Errorf("--contexts needs a number")
	case c.Tokens < 1:
		return fmt.Errorf("--tokens is %d, expected 1 or more", c.Tokens)
	case c.Passes < 1:
		return fmt.Errorf("--passes is %d, expected 1 or more", c.Passes)
	}
	return checkThreads(c.Threads)
}

// snapKVResult is the JSON of one shape.
type snapKVResult struct {
	Shape string               `json:"shape"`
	Rows  []engine.SnapKVSpeed `json:"rows"`
}

// Run prints a table per shape.
func (c *BenchSnapKV) Run(ctx context.Context, t *terminal) error {
	if len(c.Shapes) == 0 {
		c.Shapes = []string{"qwen3_5_moe-2b"}
	}
	var results []snapKVResult
	for _, name := range c.Shapes {
		shape, err := shapeOf(name)
		if err != nil {
			return err
		}
		s := engine.SnapKVBench{Source: engine.Random(shape.Config), Threads: c.Threads,
			Contexts: c.Contexts, Tokens: c.Tokens, Passes: c.Passes,
			Say: func(what string) { fmt.Fprintln(t.err, shape.Name+": "+what) }}
		rows, err := s.Measure(ctx)
		if err != nil {
			return err
		}
		results = append(results, snapKVResult{shape.Name, rows})
		if c.JSON {
			continue
		}
		fmt.Fprintf(t.out, "%s, random weights; %s, %d cores; %d positions selected\n", shape.Name,
			runtime.GOARCH, runtime.NumCPU(), c.Tokens)
		w := tabwriter.NewWriter(t.out, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(w, "context\tplain, ms\tSnapKV, ms\t\tto select, ms\t")
		for _, r := range rows {
			fmt.Fprintf(w, "%d\t%.1f\t%.1f\t%.2f x\t%.1f\t\n", r.Context, 1e3*r.PlainSeconds,
				1e3*r.Seconds, r.Ratio, 1e3*r.SelectSeconds)
		}
		w.Flush()
	}
	if c.JSON {
		return printJSON(t.out, results)
	}
	return nil
}
