package engine

// SnapKV: a pass that decodes at the end of a long prompt, with a selection of its positions and
// with all of them. The cache has copies of the keys and values of a short prompt, because how long
// a pass takes does not depend on them. Passes take turns, and the first quartile counts.

import (
	"context"
	"fmt"
	"slices"
	"time"

	"headroom/engine/cache"
	"headroom/engine/checkpoint"
	"headroom/engine/models"
	"headroom/engine/plan"
	"headroom/engine/problem"
	"headroom/engine/runner"
	"headroom/engine/sched"
	"headroom/kernels"
	"headroom/kernels/cpu"
)

// SnapKVBench says what is measured. All fields are required, except Threads, Tokens and Say.
type SnapKVBench struct {
	Source   Source
	Threads  int   // as in Options
	Contexts []int // lengths of prompts, at least LeastSnapKVContext
	Tokens   int   // positions that are selected; 0: as in Options
	Passes   int   // of each kind, for each context
	// Say is called with a description of the next measurement. It must not block. May be nil.
	Say func(what string)
}

// SnapKVSpeed is the speed at one context.
type SnapKVSpeed struct {
	Context      int     `json:"context"`
	Selected     int     `json:"selected"`
	PlainSeconds float64 `json:"plain_seconds"`  // of a pass that reads all positions
	Seconds      float64 `json:"snapkv_seconds"` // of one that reads the selected ones
	Ratio        float64 `json:"ratio"`
	// SelectSeconds is what selecting adds to the end of the prompt.
	SelectSeconds float64 `json:"select_seconds"`
}

const (
	// copiedTokens is the length of the prompt that is computed and copied.
	copiedTokens = 512
	// LeastSnapKVContext is the shortest context: what is always kept, and some more.
	LeastSnapKVContext = 2 * copiedTokens
)

// Measure measures every context, on the CPU.
func (s *SnapKVBench) Measure(ctx context.Context) (rows []SnapKVSpeed, err error) {
	deepest := 0
	for _, n := range s.Contexts {
		deepest = max(deepest, n)
	}
	if s.Tokens == 0 {
		s.Tokens = sched.SelectTokens
	}
	config, err := s.checkedConfig(deepest)
	if err != nil {
		return nil, err
	}
	d := kernels.NewCPU(cpu.Options{Threads: s.Threads})
	defer d.Close()
	w, err := checkpoint.Open(s.Source, config, d)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	m, err := models.Load(w)
	if err != nil {
		return nil, err
	}
	kv, err := cache.ParseFormat(cache.FormatOptions{})
	if err != nil {
		return nil, err
	}
	pages := pagesOf(deepest) + 32
	c := &selectedPass{observe: 32, own: firstPages(pages),
		pages: firstPages(pages + pagesOf(s.Tokens))[pages:]}
	c.runner = runner.New(d, m, runner.Options{KV: kv, Pages: pages + len(c.pages), Slots: 1,
		BatchRows: copiedTokens, LogitsRows: 1})
	if err := c.fill(pages + len(c.pages)); err != nil {
		return nil, err
	}
	for _, n := range s.Contexts {
		if s.Say != nil {
			s.Say(fmt.Sprintf("context %d", n))
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		row, err := c.measure(n, s.Tokens, s.Passes)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// checkedConfig returns the model's config, or a Problem unless a prompt of so many tokens fits
// into the model's context and into memory.
func (s *SnapKVBench) checkedConfig(tokens int) (*checkpoint.Config, error) {
	p, err := plan.New(s.Source, plan.Options{ContextTokens: tokens, MaxSequences: 1,
		NoPrefixCache: true, SelectTokens: s.Tokens, SelectFrom: LeastSnapKVContext})
	if err != nil {
		return nil, err
	}
	if longest := p.Spec.ContextTokens; tokens > longest {
		return nil, problem.New(problem.BadRequest, "The model has no context of this length",
			fmt.Sprintf("a prompt of %d tokens, the model's context has %d", tokens, longest),
			"Measure shorter prompts, with --contexts.")
	}
	return p.Config, p.Check()
}

func pagesOf(tokens int) int { return (tokens + cache.PageTokens - 1) / cache.PageTokens }

func firstPages(n int) (pages []int32) {
	for i := range n {
		pages = append(pages, int32(i))
	}
	return pages
}

// selectedPass runs passes at the end of a prompt.
type selectedPass struct {
	runner  *runner.Runner
	observe int     // the last tokens of the prompt, which select
	own     []int32 // pages of the prompt
	pages   []int32 // of the selected positions
}

// fill computes a short prompt and copies it to all pages.
func (c *selectedPass) fill(pages int) error {
	if _, err := c.pass(kernels.Span{Rows: copiedTokens, Pages: c.own}); err != nil {
		return err
	}
	for i := pagesOf(copiedTokens); i < pages; i++ {
		c.runner.CopyPage(int32(i%pagesOf(copiedTokens)), int32(i))
	}
	return nil
}

// pass returns the duration of a pass.
func (c *selectedPass) pass(s kernels.Span) (time.Duration, error) {
	tokens := make([]int32, s.Rows)
	for i := range tokens {
		tokens[i] = int32(1 + i*7%200)
	}
	began := time.Now()
	_, err := c.runner.Step(tokens, []kernels.Span{s}, []int32{int32(s.Rows - 1)})
	return time.Since(began), err
}

// measure measures one context.
func (c *selectedPass) measure(context, selected, passes int) (row SnapKVSpeed, err error) {
	const first = 2 * cache.PageTokens // tokens that are always kept
	compact := &kernels.Compact{Prompt: context, Observe: c.observe, First: first,
		From:   (context - copiedTokens) / cache.PageTokens * cache.PageTokens,
		Tokens: selected, Pages: c.pages}
	compact.Table = append(append(append(compact.Table, c.own[:first/cache.PageTokens]...),
		c.pages...), c.own[compact.From/cache.PageTokens:]...)
	row = SnapKVSpeed{Context: context, Selected: selected}
	run := func(rows, position int, compact *kernels.Compact) (seconds float64) {
		if err != nil {
			return 0
		}
		var took time.Duration
		took, err = c.pass(kernels.Span{Rows: rows, Pos: position, Pages: c.own, Compact: compact})
		return took.Seconds()
	}
	end := context - c.observe
	var without, with []float64
	for range 3 {
		without = append(without, run(c.observe, end, nil))
		with = append(with, run(c.observe, end, compact))
	}
	row.SelectSeconds = max(0, slices.Min(with)-slices.Min(without))
	without, with = nil, nil
	for range passes {
		without = append(without, run(1, context, nil))
		with = append(with, run(1, context, compact))
	}
	if err != nil {
		return row, err
	}
	slices.Sort(without)
	slices.Sort(with)
	row.PlainSeconds, row.Seconds = without[len(without)/4], with[len(with)/4]
	row.Ratio = row.PlainSeconds / row.Seconds
	return row, nil
}
