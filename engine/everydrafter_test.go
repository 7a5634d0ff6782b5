package engine_test

// Every drafter at every depth, on models with every kind of cache: the greedy tokens and their
// log-probabilities are those of plain decoding, one request at a time and four at once. A new
// drafter is a row of aheadWays, and a new kind of cache a row of aheadModels.

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"

	"headroom/engine"
	"headroom/engine/draft"
	"headroom/engine/models/modelstest"
	"headroom/engine/sample"
)

// aheadModel is a model with one kind of cache.
type aheadModel struct {
	name   string
	source func(t *testing.T) engine.Source
	block  bool // it has a block that drafts
	o      engine.Options
}

func tiny(name string) func(t *testing.T) engine.Source {
	return func(t *testing.T) engine.Source { return tinySource(t, name) }
}

var aheadModels = []aheadModel{
	{"demo", func(t *testing.T) engine.Source { return demoSource(t) }, true, engine.Options{}},
	{"full attention", tiny("qwen3"), false, engine.Options{KVFormat: "f16"}},
	{"quantized pages", tiny("qwen3"), false, engine.Options{KVBits: "(8, 4)"}},
	{"quantized pages after a start", tiny("qwen3"), false,
		engine.Options{KVBits: "4", KVStartTokens: 512}},
	{"windows", tiny("gemma3_text"), false, engine.Options{}},
	{"windows with sinks", tiny("gpt_oss"), false, engine.Options{KVFormat: "q4_0"}},
	{"rings", tiny("qwen3"), false, engine.Options{MaxKVTokens: 48}},
	{"gated delta rule, own block",
		func(t *testing.T) engine.Source { return mtpSource(t, "qwen3_5_text") }, true,
		engine.Options{}},
	{"latents, own block", ownBlock("deepseek_v3"), true, engine.Options{}},
	{"quantized latents, own block", ownBlock("glm4_moe_lite"), true,
		engine.Options{KVBits: "(8, 4)"}},
	{"experts, own block", ownBlock("glm4_moe"), true, engine.Options{KVBits: "(8, 4)"}},
	{"biases, own block", ownBlock("mimo"), true, engine.Options{KVFormat: "f16"}},
	{"Mamba-2, own block", ownBlock("nemotron_h"), true, engine.Options{}},
	{"gated delta rule, experts", tiny("qwen3_next"), false, engine.Options{StateFormat: "bf16"}},
	{"Mamba-2", tiny("granitemoehybrid"), false, engine.Options{StateFormat: "int8"}},
	{"short convolution", tiny("lfm2"), false, engine.Options{KVBits: "(8, 4)"}},
	{"windows, shared keys", tiny("gemma4_text"), false, engine.Options{KVBits: "(8, 4)"}},
	{"windows, full attention after a start", tiny("gemma4_text_affine"), false,
		engine.Options{KVBits: "4", KVStartTokens: 64}},
}

// blockFolders are the models of aheadModels whose block may be in a folder of its own.
var blockFolders = map[string]blockFolder{
	"demo":                         {"qwen3_5_mtp", afterMTP},
	"gated delta rule, own block":  {"qwen3_5_mtp", afterMTP},
	"quantized latents, own block": {"glm4_moe_lite_mtp", afterTwoLayers},
	"Mamba-2, own block":           {"nemotron_h_mtp", afterMTP},
}

// files returns the files of a model.
func files(src engine.Source) fs.FS {
	if src.FS != nil {
		return src.FS
	}
	return os.DirFS(src.Dir)
}

// aheadWay is a way to decode ahead.
type aheadWay struct {
	name string
	// needs adds what the way needs to o, and reports whether the model has it. It may replace src
	// by a folder with the same model. nil: nothing.
	needs func(t *testing.T, m aheadModel, src *engine.Source, o *engine.Options) bool
	// propose proposes depth tokens after others; nil: the model's block or its draft model does.
	propose func(p *proposer, tokens []int32, depth int) []int32
	// opened changes an engine before its first request; nil: nothing.
	opened func(e *engine.Engine)
	once   bool // it has no depth: the engine decides
	// least and most are bounds of the share of drafts that are right, over all models.
	least, most float64
}

var aheadWays = []aheadWay{
	{name: "lookup", propose: (*proposer).lookup, least: 0.02, most: 0.98},
	{name: "lookup in others", propose: (*proposer).inOthers, least: 0.3, most: 0.98},
	{name: "the model's block", least: 0.01, most: 0.98,
		needs: needsBlock},
	{name: "the model's block, from a shortlist", least: 0.003, most: 0.98, needs: needsBlock,
		opened: func(e *engine.Engine) { e.Shortlist(100, 20) }},
	{name: "a block's folder", least: 0.01, most: 0.98,
		needs: func(t *testing.T, m aheadModel, src *engine.Source, o *engine.Options) bool {
			folder, ok := blockFolders[m.name]
			if ok {
				model, block := splitModel(t, files(*src), folder, nil)
				*src, o.DraftModel = model, &engine.DraftModel{Source: block, Required: true}
			}
			return ok
		}},
	{name: "a block's folder, beside the model's block", least: 0.01, most: 0.98,
		needs: func(t *testing.T, m aheadModel, src *engine.Source, o *engine.Options) bool {
			folder, ok := blockFolders[m.name]
			if ok {
				_, block := splitModel(t, files(*src), folder, nil)
				o.DraftModel = &engine.DraftModel{Source: block, Required: true}
			}
			return ok
		}},
	{name: "draft model, a copy", least: 0.9, most: 1,
		needs: func(_ *testing.T, m aheadModel, src *engine.Source, o *engine.Options) bool {
			o.DraftModel = &engine.DraftModel{Source: *src, Required: true}
			return true
		}},
	{name: "draft model, another", most: 0.5,
		needs: func(t *testing.T, m aheadModel, _ *engine.Source, o *engine.Options) bool {
			small := tinySource(t, "qwen3_5_text") // recurrent
			o.DraftModel = &engine.DraftModel{Source: small, Required: true}
			return !m.block // those have other vocabularies
		}},
	{name: "DFlash drafter", most: 0.5, // which is random
		needs: func(t *testing.T, m aheadModel, _ *engine.Source, o *engine.Options) bool {
			layers := map[string]int{"full attention": 4, "quantized pages": 4,
				"quantized pages after a start": 4, "windows": 6}[m.name]
			if layers > 0 {
				o.DraftModel = &engine.DraftModel{Source: dflashSource(t, otherTarget(layers)),
					Required: true}
			}
			return layers > 0
		}},
	{name: "assistant", most: 0.5, needs: needsAssistant},
	{name: "assistant, from a shortlist", most: 0.5, needs: needsAssistant,
		opened: func(e *engine.Engine) { e.Shortlist(100, 20) }},
	{name: "garbage", propose: (*proposer).garbage, most: 0.1},
	{name: "the engine's choice", once: true, least: 0.02, most: 1},
	{name: "the engine's choice, from a shortlist", once: true, least: 0.02, most: 1,
		needs: needsBlock, opened: func(e *engine.Engine) { e.Shortlist(100, 20) }},
}

// needsBlock is aheadWay.needs of the model's own block.
func needsBlock(_ *testing.T, m aheadModel, _ *engine.Source, _ *engine.Options) bool {
	return m.block
}

// needsAssistant is aheadWay.needs of an assistant, which is random.
func needsAssistant(t *testing.T, m aheadModel, _ *engine.Source, o *engine.Options) bool {
	keys, ok := map[string]map[string]any{"windows, shared keys": modelstest.SharedTarget,
		"windows, full attention after a start": nil}[m.name]
	if ok {
		o.DraftModel = &engine.DraftModel{Source: assistantSource(t, keys), Required: true}
	}
	return ok
}

// proposer is what drafters that need no model know. The engine's goroutine uses it, and between
// requests the test.
type proposer struct {
	mu     sync.Mutex
	way    aheadWay
	depth  int
	vocab  int32
	r      *rand.Rand
	others draft.Others

	prediction []int32 // which lookups also search
}

// propose is engine.Options.Draft.
func (p *proposer) propose(tokens []int32, _ bool) *engine.Drafts {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.way.once:
		return nil
	case p.way.propose == nil:
		return &engine.Drafts{Block: p.depth}
	}
	return &engine.Drafts{Tokens: p.way.propose(p, tokens, p.depth)}
}

func (p *proposer) lookup(tokens []int32, depth int) []int32 {
	return p.lookUp(tokens, depth, nil)
}

func (p *proposer) inOthers(tokens []int32, depth int) []int32 {
	return p.lookUp(tokens, depth, &p.others)
}

func (p *proposer) lookUp(tokens []int32, depth int, others *draft.Others) []int32 {
	l := draft.NewLookup(p.prediction, len(tokens))
	if l.Extend(tokens, nil, others); l.Match() == 0 {
		return nil
	}
	return l.Propose(tokens, depth)
}

func (p *proposer) garbage(_ []int32, depth int) (drafts []int32) {
	for range depth {
		drafts = append(drafts, p.r.Int32N(p.vocab))
	}
	return drafts
}

// know lets lookups find an answer, of which some tokens are others.
func (p *proposer) know(prompt, answer []int32) {
	known := slices.Concat(prompt, answer)
	for i := len(prompt) + 5; i < len(known); i += 7 {
		known[i] ^= 1
	}
	p.others.Add("", known, 0)
}

// aheadPrompts returns prompts of many lengths. Some repeat themselves.
func aheadPrompts(first, n int) (prompts [][]int32) {
	for i := first; i < first+n; i++ {
		p := someIDs(i, 5+(i*37)%150)
		if i%3 == 1 {
			p = slices.Concat(p, p[len(p)/3:], p[:1+len(p)/2])
		}
		prompts = append(prompts, p)
	}
	return prompts
}

// aheadTest is what of all that is tested.
type aheadTest struct {
	device  string // "": the CPU
	prompts int    // for each model
	depths  []int
	part    func(i int) bool // whether to take the i-th model; nil: all
}

// run tests every way with every model, and returns the number of prompts.
func (a aheadTest) run(t *testing.T) (prompts int) {
	rights, drafts := map[string]int64{}, map[string]int64{}
	for i, m := range aheadModels {
		if a.part != nil && !a.part(i) {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			all := aheadPrompts(i*100, a.prompts)
			a.model(t, m, all, rights, drafts)
			prompts += len(all)
		})
	}
	for _, w := range aheadWays {
		right := float64(rights[w.name]) / float64(max(drafts[w.name], 1))
		t.Logf("%s: %d of %d drafts were right", w.name, rights[w.name], drafts[w.name])
		if compileOnly || a.part != nil || t.Failed() {
			continue
		}
		if drafts[w.name] == 0 || right < w.least || right > w.most {
			t.Errorf("%s: %d of %d drafts were right, expected %g to %g of some", w.name,
				rights[w.name], drafts[w.name], w.least, w.most)
		}
	}
	return prompts
}

// model tests every way with one model. It adds up how many drafts there were and were right.
func (a aheadTest) model(t *testing.T, m aheadModel, prompts [][]int32, rights,
	drafts map[string]int64) {
	src, o := m.source(t), m.o
	o.ContextTokens, o.MaxSequences, o.ChunkTokens, o.KeptStates = 512, 4, 96, 40
	o.QueueRequests = len(prompts)
	openOn := func(src engine.Source, o engine.Options) *engine.Engine {
		if a.device != "" {
			return openMetal(t, a.device, src, o)
		}
		return openModel(t, src, o)
	}
	plain := openOn(src, o)
	p := &proposer{vocab: 300, r: rand.New(rand.NewPCG(1, 9))}
	var want plainAnswers
	for i, prompt := range prompts {
		r := engine.Request{Prompt: prompt, MaxTokens: 12 + i%9, IgnoreEOS: true,
			Sampling: sample.Params{Logprobs: 1}}
		p.know(prompt, want.add(t, plain, r))
	}
	plain.Close()
	for _, w := range aheadWays {
		src, o := src, o
		o.Speculate, o.Draft = engine.SpeculateAuto, p.propose
		if w.needs != nil && !w.needs(t, m, &src, &o) ||
			m.o.MaxKVTokens > 0 && o.DraftModel != nil {
			continue
		}
		ahead := openOn(src, o)
		ahead.FreeRows()
		if w.opened != nil {
			w.opened(ahead)
		}
		for _, depth := range a.depths {
			p.mu.Lock()
			p.way, p.depth = w, depth
			p.mu.Unlock()
			how := fmt.Sprintf("%s, depth %d", w.name, depth)
			if want.alone(t, ahead, how); !w.once || depth == a.depths[0] {
				want.crowd(t, ahead, how)
			}
		}
		s := ahead.Stats()
		rights[w.name], drafts[w.name] = rights[w.name]+s.AcceptedTokens,
			drafts[w.name]+s.DraftTokens
		ahead.Close()
	}
}

var everyDepth = []int{1, 2, 3, 4, 5, 6, 7, draft.MaxTokens}

// longPrompts is the number of prompts for each model in the long form: at least 300 for all.
const longPrompts = 28

// TestEveryDrafter has 300 prompts and every depth with HEADROOM_LONG. With HEADROOM_PART=2/3, for
// example, every third model from the second on.
func TestEveryDrafter(t *testing.T) {
	a := aheadTest{prompts: 3, depths: []int{2, draft.MaxTokens}}
	long := long()
	switch {
	case testing.Short(): // under the race detector
		a = aheadTest{prompts: 2, depths: []int{3}, part: func(i int) bool { return i == 7 }}
	case long:
		a = aheadTest{prompts: longPrompts, depths: everyDepth}
	}
	var part, parts int
	if _, err := fmt.Sscanf(os.Getenv("HEADROOM_PART"), "%d/%d", &part, &parts); err == nil {
		a.part = func(i int) bool { return i%parts == part-1 }
	}
	if n := a.run(t); long && a.part == nil && n < 300 {
		t.Errorf("%d prompts, expected 300", n)
	}
}

// TestMetalEveryDrafter runs a part of that on the simulated Metal device with HEADROOM_LONG: all
// but the demo model, which takes minutes there. An NVIDIA GPU runs all of it. TestMetalDrafts is
// the short form.
func TestMetalEveryDrafter(t *testing.T) {
	if !long() {
		t.Skip("takes half a minute; HEADROOM_LONG runs it")
	}
	onMetalDevices(t, func(t *testing.T, device string) {
		a := aheadTest{device: device, prompts: 1, depths: []int{4},
			part: func(i int) bool { return aheadModels[i].name != "demo" }}
		if device == engine.DeviceNV {
			a = aheadTest{device: device, prompts: longPrompts, depths: everyDepth}
		}
		a.run(t)
	})
}
