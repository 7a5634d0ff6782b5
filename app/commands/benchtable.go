package commands

// The table of all figures that Headroom has targets for. Each group is measured in a child
// process, so that its memory includes no other group.

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"headroom/app/bench"
	"headroom/app/version"
	"headroom/engine"
	"headroom/engine/problem"
)

// BenchTable is `headroom bench`.
type BenchTable struct {
	Only     []string `help:"Groups to measure: dense, f16, streams, threads, moe, load. Default: all." enum:"dense,f16,streams,threads,moe,load" placeholder:"GROUP"`
	Quick    bool     `help:"Run a third of the repeats and no context above 4,096 tokens."`
	Threads  int      `help:"Compute threads. Default: one per performance core."`
	Repeat   int      `help:"Runs of each figure; the median counts." default:"5"`
	Prompts  []int    `help:"Prompt lengths to prefill, in tokens." default:"128,512,2048"`
	Contexts []int    `help:"Context lengths to decode at, in tokens, in ascending order." default:"4096,16384"`
	Streams  []int    `help:"Numbers of concurrent streams." default:"1,2,4,8"`
	Tokens   int      `help:"Tokens to decode per answer." default:"64"`
	Dense    string   `help:"Shape of the dense model: a config.json, or the name of a public model." default:"qwen3-0.6b" placeholder:"MODEL"`
	MoE      string   `name:"moe" help:"Shape of the mixture-of-experts model." default:"qwen3_5_moe-2b" placeholder:"MODEL"`
	JSON     string   `name:"json" help:"Write the figures to this file as JSON." placeholder:"FILE"`
	Markdown string   `help:"Write the table to this file." placeholder:"FILE"`
	GoBench  string   `name:"go-bench" help:"Write every sample to this file in Go's benchmark format, for benchstat." placeholder:"FILE"`
	Readme   string   `help:"Replace the marked section of this Markdown file with the table." placeholder:"FILE"`
	DeviceFlag

	// The parent process sets these for the child that measures one group.
	Group      string `hidden:"" help:"Measure this group here and print it as JSON."`
	Checkpoint string `hidden:"" help:"Folder of the checkpoint to load."`
}

// Run measures, prints the table and writes the files that the flags name.
func (c *BenchTable) Run(ctx context.Context, t *terminal) error {
	if err := c.choose(ctx); err != nil {
		return err
	}
	if c.Quick {
		c.Repeat = (c.Repeat + 2) / 3
		c.Contexts = slices.DeleteFunc(c.Contexts, func(n int) bool { return n > 4096 })
		c.Quick = false // children get the reduced lists
	}
	plan, err := c.plan(t)
	if err != nil {
		return err
	}
	if c.Group != "" {
		part, err := plan.Measure(ctx, c.Group)
		if err != nil {
			return err
		}
		return json.NewEncoder(t.out).Encode(part)
	}
	report := &bench.Report{Format: bench.Format, Version: version.Version,
		Date: time.Now().UTC().Truncate(time.Second), Machine: bench.ThisMachine()}
	for i, g := range bench.Groups {
		if len(c.Only) > 0 && !slices.Contains(c.Only, g.Name) {
			continue
		}
		fmt.Fprintf(t.err, "%d of %d: %s\n", i+1, len(bench.Groups), g.What)
		part, err := c.runChild(ctx, t, plan, g.Name)
		if err != nil {
			return err
		}
		report.Parts = append(report.Parts, *part)
		report.Machine.Load[1] = bench.LoadAverage()
		// Write after each group, because the next one takes minutes and the user may stop it.
		if err := c.write(report); err != nil {
			return err
		}
	}
	return report.Markdown(t.out)
}

func (c *BenchTable) plan(t *terminal) (plan *bench.Plan, err error) {
	plan = &bench.Plan{Device: c.Device, Threads: c.Threads, Prompts: c.Prompts,
		Contexts: c.Contexts, Streams: c.Streams, Tokens: c.Tokens, Repeat: c.Repeat,
		Checkpoint: c.Checkpoint, Say: func(what string) { fmt.Fprintln(t.err, "  "+what) }}
	if !slices.IsSorted(c.Contexts) ||
		slices.Min(append(slices.Concat(c.Prompts, c.Contexts, c.Streams), c.Tokens)) < 1 {
		return nil, problem.New(problem.BadRequest, "The benchmark cannot measure this",
			"lengths and numbers of streams must be 1 or more, and contexts must ascend", "")
	}
	if plan.Dense, err = shapeOf(c.Dense); err == nil {
		plan.MoE, err = shapeOf(c.MoE)
	}
	return plan, err
}

// shapeOf returns the shape of a name or of a config.json. Its weights are random, so it is a model
// that runs by itself.
func shapeOf(name string) (bench.Shape, error) {
	config, err := configOf(name)
	if err == nil && engine.IsDrafter(engine.Random(config)) {
		err = problem.New(problem.BadRequest, name+" is a drafter, and no model",
			"it drafts tokens for the model that it is made for, and cannot run alone",
			"Name that model, its config.json, or a shape.")
	}
	return bench.Shape{Name: strings.TrimSuffix(path.Base(name), ".json"), Config: config}, err
}

// runChild measures a group in a child process.
func (c *BenchTable) runChild(ctx context.Context, t *terminal, plan *bench.Plan,
	group string) (*bench.Part, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := []string{"bench", "--group=" + group, "--threads=" + strconv.Itoa(c.Threads),
		"--repeat=" + strconv.Itoa(c.Repeat), "--prompts=" + joined(c.Prompts),
		"--contexts=" + joined(c.Contexts), "--streams=" + joined(c.Streams),
		"--tokens=" + strconv.Itoa(c.Tokens), "--dense=" + c.Dense, "--moe=" + c.MoE,
		"--device=" + c.Device}
	if group == bench.Load {
		dir, err := os.MkdirTemp("", "headroom-bench-")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
		if err := plan.WriteCheckpoint(dir); err != nil {
			return nil, err
		}
		args = append(args, "--checkpoint="+dir)
	}
	var out bytes.Buffer
	child := exec.CommandContext(ctx, program, args...)
	child.Stdout, child.Stderr = &out, t.err
	if err := child.Run(); err != nil {
		return nil, exitProblem // the child has printed the error
	}
	part := &bench.Part{}
	if err := json.Unmarshal(out.Bytes(), part); err != nil {
		return nil, problem.Wrap(problem.Internal, err,
			"The output of a benchmark process cannot be read", "")
	}
	return part, nil
}

// write writes the files that the flags name.
func (c *BenchTable) write(report *bench.Report) error {
	var table, lines bytes.Buffer
	if err := report.Markdown(&table); err != nil {
		return err
	}
	if err := report.GoBench(&lines); err != nil {
		return err
	}
	text, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return err
	}
	var document []byte
	if c.Readme != "" {
		if document, err = os.ReadFile(c.Readme); err == nil {
			document, err = report.Replace(document)
		}
		if err != nil {
			return problem.Wrap(problem.BadRequest, err,
				"The table cannot be written into "+c.Readme, "")
		}
	}
	for _, f := range []struct {
		name string
		text []byte
	}{{c.JSON, append(text, '\n')}, {c.Markdown, table.Bytes()}, {c.GoBench, lines.Bytes()},
		{c.Readme, document}} {
		if f.name == "" {
			continue
		}
		if err := os.WriteFile(filepath.Clean(f.name), f.text, 0o644); err != nil {
			return problem.Wrap(problem.BadRequest, err, "The figures cannot be written", "")
		}
	}
	return nil
}
