// Package parity checks that what makes a model faster changes none of its answers. It answers the
// same prompts greedily in several ways, and compares the tokens and their log-probabilities with
// those of the plain way: one request at a time, nothing cached, one token per pass.
//
//	parity.go    the ways
//	ask.go       answers of an engine, alone and all at once
//	drafts.go    drafts that are wrong on purpose
//	compare.go   where two answers part
//	report.go    the result
//	prompts.go   the prompts that are built in
//
// Batches, the prefix cache and decoding ahead must change no bit. Another format of the KV cache
// and another device may: for these, the report says by how much.
//
// At any time at most one engine is open, so a check needs no more memory than the model.
package parity

import (
	"cmp"
	"context"
	"fmt"

	"headroom/engine"
	"headroom/engine/problem"
)

// Options say what is checked. Engine, Prompts, Tokens and Dir are required, and Open or Source.
type Options struct {
	Source engine.Source
	// Open opens an engine; nil: engine.Open with the Source.
	Open func(ctx context.Context, o engine.Options) (*engine.Engine, error)
	// Engine has the options with which the model runs. Its Device is the one to check. Run sets
	// what concerns the prefix cache and decoding ahead.
	Engine  engine.Options
	Prompts [][]int32 // token ids
	Tokens  int       // maximum length of an answer
	Dir     string    // an empty folder for the prefix cache on disk
	Other   string    // the device to compare with; "": none
	NoOther string    // why there is no other device
	// Say is called with what comes next, the first step being 1. It must not block. May be nil.
	Say func(step, steps int, what string)
	// Row is called with each row of the report as soon as it is known. It must not block. May be
	// nil.
	Row func(Row)
}

// Compare sets the device to check, unless Engine names one, and the one to compare with. gpu is
// the device that models run on by default, and trouble why that is not the GPU; nil: no trouble.
func (o *Options) Compare(gpu string, trouble error) {
	o.Engine.Device = cmp.Or(o.Engine.Device, gpu)
	switch {
	case o.Engine.Device != engine.DeviceCPU:
		o.Other = engine.DeviceCPU
	case gpu != engine.DeviceCPU:
		o.Other = gpu
	case trouble != nil:
		o.NoOther = "the GPU has not passed its self-test"
	default:
		o.NoOther = "no GPU"
	}
}

// check is a running check.
type check struct {
	Options
	ctx    context.Context
	drafts wrongDrafts
	plain  []answer
	report *Report
	text   func(token int32) string // the text of a token
}

// Run checks the model in every way. It returns an error if one of the ways that must be equal
// cannot be tried for another reason than the model.
func Run(ctx context.Context, o Options) (*Report, error) {
	c := &check{Options: o, ctx: ctx,
		report: &Report{Prompts: len(o.Prompts), MaxTokens: o.Tokens}}
	if err := c.checkDraftModel(); err != nil {
		return nil, err
	}
	if c.Open == nil {
		c.Open = func(ctx context.Context, o engine.Options) (*engine.Engine, error) {
			return engine.Open(ctx, c.Source, o)
		}
	}
	parts := []struct {
		what string
		run  func() error
	}{
		{"plain, in a crowd, from the prefix cache", c.withoutDrafts},
		{"after a restart", c.restarted},
		{"decoded ahead", c.ahead},
		{"another KV cache", c.otherCache},
		{"another device", c.otherDevice},
	}
	for i, p := range parts {
		if o.Say != nil {
			o.Say(i+1, len(parts), p.what)
		}
		if err := p.run(); err != nil {
			return nil, err
		}
	}
	c.report.conclude()
	return c.report, nil
}

// checkDraftModel returns an error if the draft model must be used and cannot be. Only one part of
// the check needs it, and that comes after minutes. If there is an Open and no Source, nothing is
// known before.
func (c *check) checkDraftModel() error {
	o := c.Engine
	o.Speculate = cmp.Or(o.Speculate, engine.SpeculateAuto)
	d, unknown := o.DraftModel, c.Open != nil && c.Source.Dir == "" && c.Source.FS == nil
	if d == nil || !d.Required || !engine.UsesDraftModel(o.Speculate) || unknown {
		return nil
	}
	if _, err := engine.Describe(c.Source, o); err != nil {
		return err
	}
	target, err := engine.NewDraftTarget(c.Source) // describing a model reads no vocabulary
	if err != nil {
		return err
	}
	return target.Fits(d.Source)
}

// with opens an engine, runs f and closes the engine.
func (c *check) with(o engine.Options, f func(e *engine.Engine) error) error {
	o.QueueRequests = max(o.QueueRequests, len(c.Prompts))
	e, err := c.Open(c.ctx, o)
	if err != nil {
		return err
	}
	err = f(e)
	return cmp.Or(err, e.Close())
}

// withStore is like with, for an engine that has the prefix cache on disk and reads nothing of it
// in advance.
func (c *check) withStore(f func(e *engine.Engine) error) error {
	o := c.Engine
	o.Speculate, o.PreloadBytes = engine.SpeculateOff, 0
	if o.NoPrefixCache {
		return c.with(o, f)
	}
	store, err := engine.OpenBlockStore(c.Dir,
		engine.BlockStoreOptions{MinFreeBytes: 1e9, DailyWriteBytes: -1})
	if err != nil {
		return err
	}
	o.BlockStore = store
	return cmp.Or(c.with(o, f), store.Close())
}

// withoutDrafts answers plainly, in a crowd, and from the prefix cache in memory. When its engine
// closes, the prefixes are written to disk.
func (c *check) withoutDrafts() error {
	return c.withStore(func(e *engine.Engine) error {
		c.describe(e)
		// The first answer of a process is slower, and would make the other ways look fast.
		_, err := c.ask(e, c.Prompts[0], uncached)
		if err != nil {
			return err
		}
		if c.plain, err = c.alone(e, uncached); err != nil {
			return err
		}
		c.add(c.row("plain, one by one", false, c.plain, speedsAlone(c.plain)))
		if err := c.crowd(e, "in a crowd", uncached); err != nil {
			return err
		}
		return c.cached(e)
	})
}

// crowd answers all prompts at once.
func (c *check) crowd(e *engine.Engine, way string, how engine.Request) error {
	answers, speeds, err := c.together(e, how)
	if err != nil {
		return err
	}
	r := c.row(way, true, answers, speeds)
	r.Note = draftNote(answers)
	c.add(r)
	return nil
}

// cached answers each prompt twice and compares the second answer.
func (c *check) cached(e *engine.Engine) error {
	const way = "from the prefix cache"
	if c.Engine.NoPrefixCache {
		c.absent(way, true, "the prefix cache is off")
		return nil
	}
	if _, err := c.alone(e, engine.Request{}); err != nil {
		return err
	}
	answers, err := c.alone(e, engine.Request{})
	if err != nil {
		return err
	}
	c.addCached(way, answers, func(u engine.Usage) int { return u.CachedTokens }, "were cached")
	return nil
}

// addCached adds a row with the number of prompt tokens that were not computed, as counted by of.
// If that is 0, equal answers show nothing.
func (c *check) addCached(way string, answers []answer, of func(engine.Usage) int, how string) {
	found, all := 0, 0
	for _, a := range answers {
		found, all = found+of(a.usage), all+a.usage.PromptTokens
	}
	r := c.row(way, true, answers, speedsAlone(answers))
	r.Note = fmt.Sprintf("%d of %d prompt tokens %s", found, all, how)
	if found == 0 && r.Partings == nil {
		r = Row{Way: way, MustEqual: true,
			NotTried: fmt.Sprintf("none of %d prompt tokens %s", all, how)}
	}
	c.add(r)
}

// restarted answers from the prefixes that the engine before has left on disk.
func (c *check) restarted() error {
	const way = "after a restart"
	if c.Engine.NoPrefixCache {
		c.absent(way, true, "the prefix cache is off")
		return nil
	}
	return c.withStore(func(e *engine.Engine) error {
		answers, err := c.alone(e, engine.Request{})
		if err != nil {
			return err
		}
		c.addCached(way, answers, func(u engine.Usage) int { return u.StoredTokens },
			"came from disk")
		return nil
	})
}

// The ways to decode ahead, as the rows of a report name them.
const (
	aheadAuto   = "decoded ahead"
	aheadLookup = "ahead, by lookup"
	aheadBlock  = "ahead, by the model's block"
	AheadDraft  = "ahead, by the draft model"
	aheadDFlash = "ahead, by the DFlash drafter"
	aheadAssist = "ahead, by the assistant"
	aheadWrong  = "ahead, some drafts wrong"
	aheadCrowd  = "the same, in a crowd"
)

// ahead answers with drafts: those that the engine proposes by itself, also if it only looks them
// up, those of the model's own block or of the draft model if there is one, and others of which
// some are wrong.
func (c *check) ahead() error {
	o := c.Engine
	o.Speculate, o.BlockStore = engine.SpeculateAuto, nil
	c.drafts.learn(c.Prompts, c.plain)
	o.Draft = c.drafts.propose
	return c.with(o, func(e *engine.Engine) error {
		tried, err := c.drafted(e, wrong)
		if err != nil {
			return err
		}
		if tried.DraftTokens == 0 {
			for _, way := range []string{aheadAuto, aheadLookup, aheadBlock, aheadWrong,
				aheadCrowd} {
				c.absent(way, true, "this model has no drafts on this device")
			}
			return nil
		}
		lookup := uncached
		lookup.Speculate = engine.SpeculateLookup
		if err := c.aheadAlone(e, aheadAuto, auto, uncached); err != nil {
			return err
		}
		if err := c.aheadAlone(e, aheadLookup, auto, lookup); err != nil {
			return err
		}
		if err = c.aheadByDrafter(e); err == nil {
			err = c.aheadAlone(e, aheadWrong, wrong, uncached)
		}
		if err == nil {
			err = c.crowd(e, aheadCrowd, uncached)
		}
		return err
	})
}

// aheadByDrafter answers with drafts of the draft model, or else of the model's own block. Without
// a draft model there is no row for it.
func (c *check) aheadByDrafter(e *engine.Engine) error {
	tried, err := c.drafted(e, block)
	switch {
	case err != nil:
		return err
	case tried.DraftModelTokens > 0:
		way, drafter := AheadDraft, "the draft model"
		switch e.Info().Drafter {
		case engine.SpeculateDFlash:
			way, drafter = aheadDFlash, "the DFlash drafter"
		case engine.SpeculateMTP:
			way, drafter = aheadAssist, "the assistant"
		}
		c.absent(aheadBlock, true, drafter+" drafts in its place")
		return c.aheadAlone(e, way, block, uncached)
	case tried.DraftTokens > 0:
		err = c.aheadAlone(e, aheadBlock, block, uncached)
	default:
		c.absent(aheadBlock, true, "the model has no block that drafts")
	}
	switch i := e.Info(); {
	case i.DraftModelUnused != "":
		c.absent(AheadDraft, true, i.DraftModelUnused)
	case i.DraftModel != "" && i.Drafter != engine.SpeculateMTP:
		c.absent(AheadDraft, true, i.DraftModel+" drafted nothing for these prompts")
	}
	return err
}

// drafted returns the usage of an answer with these drafts.
func (c *check) drafted(e *engine.Engine, m draftMode) (engine.Usage, error) {
	c.drafts.set(m)
	for i, p := range c.Prompts {
		if len(c.plain[i].tokens) > 2 { // the last token of an answer is never computed
			a, err := c.ask(e, p, uncached)
			return a.usage, err
		}
	}
	return engine.Usage{}, nil
}

func (c *check) aheadAlone(e *engine.Engine, way string, m draftMode, how engine.Request) error {
	c.drafts.set(m)
	answers, err := c.alone(e, how)
	if err != nil {
		return err
	}
	r := c.row(way, true, answers, speedsAlone(answers))
	r.Note = cmp.Or(draftNote(answers), "nothing was proposed")
	c.add(r)
	return nil
}

// otherCache answers with keys and values in f16, or quantized if the plain way has them in f16
// or longer.
func (c *check) otherCache() error {
	o, way := c.Engine, "KV cache in f16"
	o.KVBits, o.KVGroupSize, o.KVBoundaryLayers, o.KVBoundaryBits, o.KVStartTokens = "", "", 0, 0, 0
	switch c.Engine.KVFormat {
	case "f16", "bf16", "f32":
		o.KVFormat, way = "", "KV cache quantized"
	default:
		o.KVFormat = "f16"
	}
	return c.otherEngine(way, o)
}

// otherDevice answers on the other device.
func (c *check) otherDevice() error {
	o, way := c.Engine, "on the CPU"
	if o.Device == engine.DeviceCPU {
		way = "on the GPU"
	}
	if c.Other == "" {
		c.absent(way, false, cmp.Or(c.NoOther, "there is no other device"))
		return nil
	}
	o.Device = c.Other
	return c.otherEngine(way, o)
}

// otherEngine answers plainly with other options, whose answers may differ. It needs memory for one
// sequence only. A model that does not run with the options says so in its row.
func (c *check) otherEngine(way string, o engine.Options) error {
	o.Speculate, o.BlockStore, o.MaxSequences = engine.SpeculateOff, nil, 1
	o.ContextTokens = c.longest()
	err := c.with(o, func(e *engine.Engine) error {
		answers, err := c.alone(e, uncached)
		if err != nil {
			return err
		}
		r := c.row(way, false, answers, speedsAlone(answers))
		if r.Note = e.Info().KVFormat; o.Device != c.Engine.Device {
			r.Note = e.Info().Device
		}
		c.add(r)
		return nil
	})
	if err == nil || c.ctx.Err() != nil {
		return err
	}
	c.absent(way, false, problem.From(err).Error())
	return nil
}

// longest returns the tokens of the longest prompt and its answer.
func (c *check) longest() (tokens int) {
	for _, p := range c.Prompts {
		tokens = max(tokens, len(p)+c.Tokens)
	}
	return tokens + 1
}
