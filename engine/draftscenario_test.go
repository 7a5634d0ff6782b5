package engine_test

// One scenario of decoding ahead: thousands of random requests with every drafter at once, right
// and wrong ones, while requests are cancelled, preempted and cut off by restarts over the same
// cache on disk. Every answer is that of plain decoding, alone and without a cache. At the end all
// memory is free and the cache on disk is sound.

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"testing"

	"headroom/engine"
	"headroom/engine/draft"
	"headroom/engine/models/modelstest"
	"headroom/engine/sample"
)

// scenarioModels take turns by seed. Those with a block or a draft model draft with it, too.
var scenarioModels = []struct {
	name   string
	source func(t *testing.T) engine.Source
	small  func(t *testing.T) engine.Source // the draft model of every other life; nil: none
	o      engine.Options
}{
	{"qwen3_5_text", func(t *testing.T) engine.Source { return mtpSource(t, "qwen3_5_text") }, nil,
		engine.Options{}},
	{"qwen3", tiny("qwen3"), tiny("qwen3_5_text"), engine.Options{KVBits: "(8, 4)"}},
	{"glm4_moe", ownBlock("glm4_moe"), nil, engine.Options{KVFormat: "f16"}},
	{"demo", func(t *testing.T) engine.Source { return demoSource(t) },
		func(t *testing.T) engine.Source { return demoSource(t) },
		engine.Options{StateFormat: "int8"}},
	{"granitemoehybrid", tiny("granitemoehybrid"), tiny("gemma2"),
		engine.Options{StateFormat: "bf16"}},
	{"gemma3_text", tiny("gemma3_text"), func(t *testing.T) engine.Source {
		return dflashSource(t, otherTarget(6))
	}, engine.Options{}},
	{"gemma4_text", tiny("gemma4_text"), func(t *testing.T) engine.Source {
		return assistantSource(t, modelstest.SharedTarget)
	}, engine.Options{KVBits: "(8, 4)"}},
}

// scenario is the state of a run.
type scenario struct {
	t      *testing.T
	r      *rand.Rand
	src    engine.Source
	small  *engine.DraftModel
	dir    string
	o      engine.Options
	plain  *engine.Engine
	e      *engine.Engine
	drafts mixedDrafts
	talks  [][]int32 // prompts with their answers

	requests, cancelled, cutOff, restarts, stored int
	sum                                           engine.Stats // of all engines
}

// mixedDrafts is a proposer that takes another drafter for every pass.
type mixedDrafts struct {
	proposer
	known drafter
	draws [6]int // by drafter
}

// propose is engine.Options.Draft.
func (d *mixedDrafts) propose(tokens []int32, _ bool) *engine.Drafts {
	d.mu.Lock()
	defer d.mu.Unlock()
	depth, way := 1+d.r.IntN(draft.MaxTokens), d.r.IntN(len(d.draws))
	d.draws[way]++
	switch way {
	case 0:
		return nil // the engine decides
	case 1:
		return &engine.Drafts{Tokens: d.lookup(tokens, depth)}
	case 2:
		return &engine.Drafts{Tokens: d.inOthers(tokens, depth)}
	case 3:
		return &engine.Drafts{Block: depth}
	case 4:
		return &engine.Drafts{Tokens: d.garbage(tokens, depth)}
	}
	d.known.depth = depth
	return &engine.Drafts{Tokens: d.known.propose(tokens)}
}

// TestDraftScenario has 2,400 requests with HEADROOM_LONG, 400 for each of the models.
func TestDraftScenario(t *testing.T) {
	models, requests := 2, 60
	switch {
	case testing.Short(): // under the race detector
		models, requests = 1, 24
	case long():
		models, requests = len(scenarioModels), 400
	}
	for i, m := range scenarioModels[:models] {
		t.Run(m.name, func(t *testing.T) {
			s := &scenario{t: t, r: rand.New(rand.NewPCG(uint64(i), 20)), src: m.source(t),
				dir: t.TempDir(), o: m.o}
			if m.small != nil {
				s.small = &engine.DraftModel{Source: m.small(t), Required: true}
			}
			s.run(requests)
			s.check(requests)
		})
	}
}

// run submits requests in rounds, with a restart after some of them.
func (s *scenario) run(requests int) {
	s.o.ContextTokens, s.o.ChunkTokens, s.o.KeptStates = 704, 16+s.r.IntN(100), 40
	s.o.MaxSequences, s.o.PreferPrefill = 8, s.r.IntN(2) == 0 // in memory for 2
	alone := s.o
	alone.NoPrefixCache, alone.MaxSequences = true, 4
	s.plain = openModel(s.t, s.src, alone)
	s.drafts.r, s.drafts.vocab = rand.New(rand.NewPCG(s.r.Uint64(), 1)), 300
	s.drafts.known = drafter{r: s.drafts.r, wrong: 0.2, vocab: 300}
	s.start()
	for s.requests < requests {
		s.round(min(6+s.r.IntN(8), requests-s.requests))
		if s.r.IntN(3) == 0 || s.restarts == 0 {
			s.restart()
		}
	}
	s.stop()
}

// start opens an engine. Every other one has the draft model, if there is one.
func (s *scenario) start() {
	o := s.o
	o.Speculate, o.Draft, o.BlockStore = engine.SpeculateAuto, s.drafts.propose,
		openStore(s.t, s.dir)
	if s.restarts%2 == 0 {
		o.DraftModel = s.small
	}
	s.o.BlockStore = o.BlockStore
	s.e = openModel(s.t, s.src, o)
	s.e.FreeRows()
}

// stop closes the engine, whose memory is free, and the block store.
func (s *scenario) stop() {
	s.t.Helper()
	idle(s.t, s.e)
	if err := s.e.CheckMemory(); err != nil {
		s.t.Fatal(err)
	}
	s.close()
}

func (s *scenario) close() {
	now := s.e.Stats()
	s.sum.Preemptions += now.Preemptions
	s.sum.DraftTokens += now.DraftTokens
	s.sum.AcceptedTokens += now.AcceptedTokens
	s.sum.DraftModelTokens += now.DraftModelTokens
	s.sum.CachedTokens += now.CachedTokens
	s.e.Close()
	s.o.BlockStore.Close()
}

// restart closes the engine and opens another one over the same cache on disk. Half of the time
// requests are running, and get the first tokens of their answers.
func (s *scenario) restart() {
	s.t.Helper()
	if s.r.IntN(2) == 0 {
		s.stop()
	} else {
		requests, want := s.ask(3)
		var streams []*engine.Stream
		for _, q := range requests {
			streams = append(streams, submit(s.t, s.e, q))
		}
		if _, err := streams[0].Next(context.Background()); err != nil {
			s.t.Fatal(err)
		}
		s.close()
		for i, stream := range streams {
			n := 0
			for e, err := stream.Next(context.Background()); err == nil; e,
				err = stream.Next(context.Background()) {
				if e.Type == engine.Token {
					if n >= len(want[i].tokens) || e.Token != want[i].tokens[n].Token {
						s.t.Errorf("a request that was cut off: token %d is %d", n, e.Token)
					}
					n++
				}
			}
			s.cutOff++
		}
	}
	s.restarts++
	s.start()
}

// ask returns n random requests with what plain decoding answers.
func (s *scenario) ask(n int) (requests []engine.Request, want []heard) {
	for range n {
		requests = append(requests, s.request())
	}
	s.requests += n
	want = make([]heard, n)
	var running sync.WaitGroup
	for i, q := range requests {
		running.Go(func() { want[i] = hear(s.t, submit(s.t, s.plain, q), 0) })
	}
	running.Wait()
	s.drafts.mu.Lock()
	defer s.drafts.mu.Unlock()
	s.drafts.known.answers = nil
	for i, q := range requests {
		talk := slices.Clone(q.Prompt)
		for _, e := range want[i].tokens {
			talk = append(talk, e.Token)
		}
		s.drafts.know(q.Prompt, talk[len(q.Prompt):])
		s.drafts.known.answers = append(s.drafts.known.answers, talk)
		s.talks = append(s.talks, talk)
	}
	return requests, want
}

// request returns a new conversation, the next turn of one, or a fork.
func (s *scenario) request() engine.Request {
	r := s.r
	q := engine.Request{MaxTokens: 1 + r.IntN(40), IgnoreEOS: r.IntN(4) > 0,
		Priority: r.IntN(5) / 4, NoCache: r.IntN(8) == 0, Private: r.IntN(6) == 0}
	q.Speculate = []string{"", "", "", "auto", "off", "lookup", "mtp", "draft",
		"dflash"}[r.IntN(9)]
	q.Prompt = slices.Concat(someIDs(r.IntN(3), 1+r.IntN(500)), someIDs(r.IntN(1000), 1+r.IntN(90)))
	if len(s.talks) > 0 && r.IntN(3) > 0 {
		talk := s.talks[r.IntN(len(s.talks))]
		if r.IntN(3) == 0 {
			talk = talk[:1+r.IntN(len(talk))]
		}
		if len(talk) < 600 {
			q.Prompt = slices.Concat(talk, someIDs(r.IntN(1000), 1+r.IntN(40)))
		}
	}
	q.Sampling = sample.Params{Logprobs: r.IntN(4) - 1}
	switch r.IntN(5) {
	case 0:
		q.Sampling.Temperature, q.Sampling.Seed = 0.9, new(r.Uint64())
		q.Sampling.RepetitionPenalty, q.Sampling.TopP = 1.1, 0.9
	case 1:
		q.Stop = []string{"e", "a"}
	case 2:
		q.ScorePrompt = r.IntN(3) == 0
	}
	return q
}

// round submits n requests at once, cancels some, and compares the answers.
func (s *scenario) round(n int) {
	s.t.Helper()
	requests, want := s.ask(n)
	got, cancel := make([]heard, n), make([]int, n)
	var running sync.WaitGroup
	for i, q := range requests {
		if s.r.IntN(5) == 0 {
			cancel[i] = 1 + s.r.IntN(q.MaxTokens)
		}
		running.Go(func() { got[i] = hear(s.t, submit(s.t, s.e, q), cancel[i]) })
	}
	running.Wait()
	for i, g := range got {
		w := want[i]
		if g.finish == engine.FinishCancelled {
			s.cancelled++
			n := len(g.tokens)
			if n > len(w.tokens) || !reflect.DeepEqual(g.tokens, w.tokens[:n:n]) {
				s.t.Errorf("request %d, cancelled: got %v", s.requests-len(got)+i, g.tokens)
			}
			continue
		}
		if g.cached = 0; !reflect.DeepEqual(g, w) {
			s.t.Fatalf("request %d: got %+v, expected %+v", s.requests-len(got)+i, g, w)
		}
	}
	for _, f := range s.e.Recent() {
		if s.stored += f.Usage.StoredTokens; f.Usage.AcceptedTokens > f.Usage.DraftTokens {
			s.t.Errorf("%d of %d drafts were right", f.Usage.AcceptedTokens, f.Usage.DraftTokens)
		}
	}
}

// check looks at the cache on disk, and whether everything has happened.
func (s *scenario) check(requests int) {
	store := openStore(s.t, s.dir)
	if err := store.Check(); err != nil {
		s.t.Error(err)
	}
	got := fmt.Sprintf("%d requests, %d cancelled, %d cut off by %d restarts, %d preemptions, "+
		"%d of %d drafts right, %d of a draft model, %d tokens cached, some from disk: %t; "+
		"draws %d", s.requests, s.cancelled, s.cutOff, s.restarts, s.sum.Preemptions,
		s.sum.AcceptedTokens, s.sum.DraftTokens, s.sum.DraftModelTokens, s.sum.CachedTokens,
		s.stored > 0, s.drafts.draws)
	s.t.Log(got)
	if s.requests < requests || s.cancelled == 0 || s.restarts == 0 || s.sum.AcceptedTokens == 0 ||
		s.sum.DraftTokens == s.sum.AcceptedTokens || slices.Min(s.drafts.draws[:]) == 0 ||
		s.small != nil && s.sum.DraftModelTokens == 0 ||
		requests > 100 && (s.sum.Preemptions == 0 || s.cutOff == 0 || s.stored == 0) {
		s.t.Error("something never happened: " + got)
	}
}
