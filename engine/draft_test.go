package engine_test

// Decoding ahead changes no token and no log-probability, whatever is proposed: right tokens, wrong
// ones, and some of each, with greedy sampling and at random, alone and in a crowd, and what is
// cached afterwards is what plain decoding would have cached.

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"headroom/engine"
	"headroom/engine/draft"
	"headroom/engine/sample"
)

// a drafter knows the plain answers, and proposes up to depth tokens of them, each of which it
// replaces by another one with the probability wrong.
type drafter struct {
	mu      sync.Mutex
	r       *rand.Rand
	depth   int
	wrong   float64
	vocab   int32
	answers [][]int32 // prompts with their answers
}

func (d *drafter) propose(tokens []int32) (drafts []int32) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := len(tokens)
	for _, a := range d.answers {
		if len(a) > n && slices.Equal(a[:n], tokens) {
			drafts = slices.Clone(a[n:min(n+d.depth, len(a))])
		}
	}
	for len(drafts) < d.depth {
		drafts = append(drafts, d.r.Int32N(d.vocab))
	}
	for i := range drafts {
		if d.r.Float64() < d.wrong {
			drafts[i] = d.r.Int32N(d.vocab)
		}
	}
	return drafts
}

// plainAnswers are requests with the tokens and log-probabilities of their answers, which those of
// decoding ahead must equal.
type plainAnswers struct {
	requests []engine.Request
	tokens   [][]int32
	logprobs [][]float32
}

// add has a request answered in plain decoding, and returns the tokens.
func (p *plainAnswers) add(t *testing.T, plain *engine.Engine, r engine.Request) []int32 {
	t.Helper()
	tokens, logprobs, _ := answer(t, submit(t, plain, r))
	p.requests, p.tokens = append(p.requests, r), append(p.tokens, tokens)
	p.logprobs = append(p.logprobs, logprobs)
	return tokens
}

// alone compares the answers of an engine that gets one request after the other.
func (p *plainAnswers) alone(t *testing.T, ahead *engine.Engine, how string) {
	t.Helper()
	for i := range p.requests {
		p.compare(t, ahead, how+", alone", i)
	}
}

// crowd compares the answers of an engine that gets all requests at once. All memory is free
// afterwards.
func (p *plainAnswers) crowd(t *testing.T, ahead *engine.Engine, how string) {
	t.Helper()
	var group sync.WaitGroup
	for i := range p.requests {
		group.Go(func() { p.compare(t, ahead, how+", in a crowd", i) })
	}
	group.Wait()
	idle(t, ahead)
	if err := ahead.CheckMemory(); err != nil {
		t.Fatalf("%s: %v", how, err)
	}
}

// compare compares the answer to one request.
func (p *plainAnswers) compare(t *testing.T, ahead *engine.Engine, how string, i int) {
	t.Helper()
	tokens, logprobs, _ := answer(t, submit(t, ahead, p.requests[i]))
	if !slices.Equal(tokens, p.tokens[i]) || !slices.Equal(logprobs, p.logprobs[i]) {
		t.Errorf("%s, request %d: got %d, expected %d", how, i, tokens, p.tokens[i])
	}
}

// sameWithDrafts answers prompts in plain decoding, and then with drafts.
func sameWithDrafts(t *testing.T, src engine.Source, o engine.Options, prompts [][]int32,
	vocab int32, depths []int) {
	t.Helper()
	plain := openModel(t, src, o)
	o.Speculate = engine.SpeculateAuto
	drafting := openModel(t, src, o)
	d := &drafter{r: rand.New(rand.NewPCG(1, 9)), vocab: vocab}
	var want plainAnswers
	ask := func(r engine.Request) {
		d.answers = append(d.answers, slices.Concat(r.Prompt, want.add(t, plain, r)))
	}
	for i, p := range prompts {
		s := sample.Params{}
		if i%2 == 1 {
			s = sample.Params{Temperature: 0.8, Seed: new(uint64(i)), TopK: 20,
				RepetitionPenalty: 1.05}
		}
		if i%4 == 3 { // samplers that only the host has
			s.XTC = sample.XTC{Probability: 0.5, Threshold: 0.02}
			s.DRY = sample.DRY{Multiplier: 0.8}
			s.FrequencyPenalty, s.FrequencyContextTokens = 0.1, 40
		}
		if i%4 == 2 { // a caller's own function, which depends on the tokens before
			s.Custom.Process = func(tokens []int32, logits []float32) {
				logits[int(tokens[len(tokens)-1]+tokens[len(tokens)/2])%len(logits)] += 4
			}
		}
		s.Logprobs = 1
		ask(engine.Request{Prompt: p, MaxTokens: 24 + i%7, Sampling: s, IgnoreEOS: true})
	}
	// The next turns resume after the answers.
	for i, r := range want.requests {
		r.Prompt = slices.Concat(d.answers[i], r.Prompt[:len(r.Prompt)/2])
		ask(r)
	}
	for _, depth := range depths {
		for _, wrong := range []float64{0, 0.3, 1} {
			d.mu.Lock()
			d.depth, d.wrong = depth, wrong
			d.mu.Unlock()
			drafting.AlwaysDraft(d.propose)
			name := fmt.Sprintf("depth %d, wrong %g", depth, wrong)
			want.alone(t, drafting, name)
			want.crowd(t, drafting, name)
		}
	}
	s := drafting.Stats()
	if s.AcceptedTokens == 0 || s.AcceptedTokens >= s.DraftTokens {
		t.Errorf("%d of %d drafts were right, expected some of them", s.AcceptedTokens,
			s.DraftTokens)
	}
}

func TestDrafts(t *testing.T) {
	depths := []int{1, 3, draft.MaxTokens}
	var prompts [][]int32
	for i := range 4 {
		prompts = append(prompts, someIDs(i, 30+40*i))
	}
	if testing.Short() { // under the race detector
		depths, prompts = []int{3}, prompts[:2]
	}
	n := 0
	eachArchitecture(t, func(t *testing.T, src engine.Source, _ engine.CacheCost) {
		mine := depths
		if !long() { // one of them, by turns
			mine = depths[n%len(depths):][:1]
		}
		n++
		sameWithDrafts(t, src, engine.Options{MaxSequences: 3, KVBits: "(8, 4)"}, prompts, 300,
			mine)
	})
}

// TestDraftsOfTheDemo uses the demo model, whose recurrent states have to go back.
func TestDraftsOfTheDemo(t *testing.T) {
	e := open(t, engine.Options{})
	var prompts [][]int32
	for _, p := range demoCases(t, 2000)[:4] {
		prompts = append(prompts, encode(e, p))
	}
	states, depths := []string{"f32", "int8"}, []int{2, 7}
	if testing.Short() { // under the race detector
		states, depths, prompts = states[1:], depths[:1], prompts[:2]
	}
	for i, state := range states {
		t.Run(state, func(t *testing.T) {
			some := depths
			if !long() && len(depths) > 1 { // each format of states has one of the depths
				some = depths[1-i:][:1]
			}
			sameWithDrafts(t, demoSource(t), engine.Options{StateFormat: state}, prompts, 500, some)
		})
	}
}

// TestLookup repeats a text. The engine's own drafts are then nearly all right, and a pass yields
// several tokens.
func TestLookup(t *testing.T) {
	e := open(t, engine.Options{Speculate: engine.SpeculateAuto})
	e.FreeRows()
	plain := open(t, engine.Options{})
	line := "The quick brown fox jumps over the lazy dog by the river. "
	r := engine.Request{Prompt: encode(e, strings.Repeat(line, 12)), MaxTokens: 120,
		IgnoreEOS: true}
	want, _, _ := collect(t, submit(t, plain, r))
	got, _, done := collect(t, submit(t, e, r))
	if !slices.Equal(got, want) {
		t.Errorf("got %d, expected %d", got, want)
	}
	u := done.Usage
	if u.DraftTokens == 0 || u.AcceptedTokens > u.DraftTokens {
		t.Errorf("%d of %d drafts were right, expected some", u.AcceptedTokens, u.DraftTokens)
	}
}

// TestDraftGain: drafts that have to be a hundred times as fast are not proposed.
func TestDraftGain(t *testing.T) {
	e := open(t, engine.Options{Speculate: engine.SpeculateAuto})
	e.FreeRows()
	line := "The quick brown fox jumps over the lazy dog by the river. "
	r := engine.Request{Prompt: encode(e, strings.Repeat(line, 12)), MaxTokens: 60,
		IgnoreEOS: true}
	for _, c := range []struct {
		gain   float64
		drafts bool
	}{{0, true}, {draft.SavingGain, true}, {100, false}, {0, true}} {
		e.SetDraftGain(c.gain)
		_, _, done := collect(t, submit(t, e, r))
		if n := done.Usage.DraftTokens; n > 0 != c.drafts {
			t.Errorf("a gain of %g: %d drafts, expected some: %t", c.gain, n, c.drafts)
		}
	}
}

// TestPrediction: a text that the answer repeats is looked up from its first tokens on. Its drafts
// are counted apart.
func TestPrediction(t *testing.T) {
	e := open(t, engine.Options{Speculate: engine.SpeculateLookup})
	e.FreeRows()
	r := engine.Request{Prompt: encode(e, demoCases(t, 400)[2]), MaxTokens: 120}
	want, _, plain := collect(t, submit(t, e, r))
	e.ForgetAll() // or the answer is found in the other conversation
	r.Prediction = slices.Clone(want)
	got, _, done := collect(t, submit(t, e, r))
	if !slices.Equal(got, want) {
		t.Errorf("got %d, expected %d", got, want)
	}
	if more := done.Usage.AcceptedTokens - plain.Usage.AcceptedTokens; more < len(want)/4 {
		t.Errorf("%d drafts were right without the prediction, %d with it",
			plain.Usage.AcceptedTokens, done.Usage.AcceptedTokens)
	}
	if p := plain.Usage.Drafts().Prediction; p != (draft.Counts{}) {
		t.Errorf("without a prediction, %+v of its drafts", p)
	}
	if d := done.Usage.Drafts(); d.Prediction.Accepted < len(want)/2 ||
		d.Prediction.Accepted+d.Lookup.Accepted != done.Usage.AcceptedTokens {
		t.Errorf("%+v of %d right drafts", d, done.Usage.AcceptedTokens)
	}
}

// TestOtherConversations asks a question in two conversations. The answer is found in the first,
// unless that is private or has been forgotten. It is the same in any case.
func TestOtherConversations(t *testing.T) {
	const question = "<|im_start|>user\nWhat is a KV cache?<|im_end|>\n<|im_start|>assistant\n" +
		"<think>\n\n</think>\n\n"
	ask := func(e *engine.Engine, before string, r engine.Request) ([]int32, engine.Usage) {
		r.Prompt, r.MaxTokens = encode(e, before+question), 60
		got, _, done := collect(t, submit(t, e, r))
		return got, done.Usage
	}
	const first = "<|im_start|>system\nYou are a fox.<|im_end|>\n"
	plain := open(t, engine.Options{Speculate: engine.SpeculateOff})
	want, _ := ask(plain, "", engine.Request{})
	accepted := map[string]int{}
	for name, use := range map[string]func(e *engine.Engine){
		"alone":     func(e *engine.Engine) {},
		"after it":  func(e *engine.Engine) { ask(e, first, engine.Request{}) },
		"private":   func(e *engine.Engine) { ask(e, first, engine.Request{Private: true}) },
		"not kept":  func(e *engine.Engine) { ask(e, first, engine.Request{NoCache: true}) },
		"off":       func(e *engine.Engine) { ask(e, first, engine.Request{Speculate: "off"}) },
		"forgotten": func(e *engine.Engine) { ask(e, first, engine.Request{}); e.ForgetAll() },
		"another's": func(e *engine.Engine) { ask(e, first, engine.Request{Owner: "b"}) },
	} {
		e := open(t, engine.Options{Speculate: engine.SpeculateLookup})
		e.FreeRows()
		use(e)
		got, usage := ask(e, "", engine.Request{})
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %d, want %d", name, got, want)
		}
		accepted[name] = usage.AcceptedTokens
	}
	t.Logf("accepted of %d: %v", len(want), accepted)
	for name, n := range accepted {
		if more := n - accepted["alone"]; name == "after it" && more < len(want)/2 ||
			name != "after it" && more != 0 {
			t.Errorf("%s: %d of %d tokens accepted, alone %d", name, n, len(want),
				accepted["alone"])
		}
	}
}

// TestOwners: the usage of a named owner counts cached tokens in whole pages, also while the prompt
// is computed, so that it does not tell how many tokens of another owner's prompt are right.
func TestOwners(t *testing.T) {
	prompt := make([]int32, 700)
	for i := range prompt {
		prompt[i] = int32(7 + i*i%251)
	}
	for owner, want := range map[string]int{"a": 640, "b": 640, "": 641} {
		e := openModel(t, tinySource(t, "qwen3"), engine.Options{ContextTokens: 1024})
		_, _, done := collect(t, submit(t, e, engine.Request{Prompt: prompt[:645], MaxTokens: 20,
			IgnoreEOS: true, Owner: "a"}))
		if n := done.Usage.CachedTokens; n != 0 {
			t.Fatalf("the first request: %d cached tokens", n)
		}
		guess := slices.Clone(prompt)
		guess[641]++
		s := submit(t, e, engine.Request{Prompt: guess, MaxTokens: 1, Owner: owner})
		for {
			event, err := s.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			u := event.Usage
			if n := u.PromptDoneTokens; owner != "" && n%32 != 0 && n != len(guess) {
				t.Errorf("owner %q: %d tokens done", owner, n)
			}
			if event.Type == engine.Done {
				if u.CachedTokens != want {
					t.Errorf("owner %q: %d cached tokens, expected %d", owner, u.CachedTokens, want)
				}
				break
			}
		}
		if s := e.Stats(); owner != "" && s.CachedTokens%32 != 0 {
			t.Errorf("owner %q: statistics have %d cached tokens", owner, s.CachedTokens)
		}
	}
}

// BenchmarkSpeculate answers each prompt of the demo model's cases in plain decoding and with the
// engine's own drafts, in turn. It prints how many times as fast the latter decodes: for all
// answers of at least 32 tokens, and for each of them with -v.
func BenchmarkSpeculate(b *testing.B) {
	plain := open(b, engine.Options{ContextTokens: 4096})
	ahead := open(b, engine.Options{ContextTokens: 4096, Speculate: engine.SpeculateAuto})
	decode := func(e *engine.Engine, p string) (time.Duration, engine.Usage) {
		_, _, done := collect(b, submit(b, e, engine.Request{Prompt: encode(e, p),
			MaxTokens: 120}))
		return done.Timing.Decode, done.Usage
	}
	prompts := demoCases(b, 2000)
	times := make([][2][]time.Duration, len(prompts))
	usages := make([]engine.Usage, len(prompts))
	for b.Loop() {
		for range 5 {
			for i, p := range prompts {
				slow, _ := decode(plain, p)
				ahead.ForgetAll() // or the last round's answer is found
				fast, u := decode(ahead, p)
				times[i][0], times[i][1] = append(times[i][0], slow), append(times[i][1], fast)
				usages[i] = u
			}
		}
	}
	median := func(list []time.Duration) time.Duration {
		slices.Sort(list)
		return list[len(list)/2]
	}
	var slow, fast time.Duration
	for i, u := range usages {
		if u.CompletionTokens < 32 {
			continue
		}
		one, two := median(times[i][0]), median(times[i][1])
		slow, fast = slow+one, fast+two
		b.Logf("%5.2f  %3d tokens, %3d of %3d drafts right", float64(one)/float64(two),
			u.CompletionTokens, u.AcceptedTokens, u.DraftTokens)
	}
	b.ReportMetric(float64(slow)/float64(fast), "times-plain")
}

// TestDraftsNeedNoMemory: a model that just fits in plain decoding also fits if it may decode
// ahead, if need be plainly: the slots for the states before drafts would take the rest.
func TestDraftsNeedNoMemory(t *testing.T) {
	src := tinySource(t, "qwen3_5_text")
	o := engine.Options{ContextTokens: 512, MaxSequences: 128, KeptStates: 4}
	d, err := engine.Describe(src, o)
	if err != nil {
		t.Fatal(err)
	}
	o.AvailableBytes = d.Need.TotalBytes() - d.Need.KVBytes + d.KVBytes(o.ContextTokens)
	for _, how := range []string{engine.SpeculateOff, engine.SpeculateAuto} {
		o.Speculate = how
		e := openModel(t, src, o)
		if got := e.Info().Need; got.TotalBytes() > o.AvailableBytes {
			t.Errorf("%s: %+v, available are %d", how, got, o.AvailableBytes)
		}
	}
}

// TestNoMemoryForNoDrafts: a model that cannot go back has no drafts, and no memory for them.
func TestNoMemoryForNoDrafts(t *testing.T) {
	for name, src := range map[string]engine.Source{"recurrent, with rings": tinySource(t,
		"qwen3_5_text"), "vectors": {Dir: vectorModels + "/modernbert"}} {
		o := engine.Options{MaxSequences: 1, ChunkTokens: 4, ContextTokens: 256, MaxKVTokens: 48,
			KeptStates: 4}
		plain, err := engine.Describe(src, o)
		if err != nil {
			t.Fatal(err)
		}
		o.Speculate = engine.SpeculateAuto
		auto, err := engine.Describe(src, o)
		if err != nil || auto.Need != plain.Need {
			t.Errorf("%s: %+v (%v), expected %+v", name, auto.Need, err, plain.Need)
		}
	}
}

// qwen3Shape is the shape of Qwen3-0.6B with 4-bit weights.
const qwen3Shape = `{"model_type": "qwen3", "hidden_size": 1024, "intermediate_size": 3072,
	"num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128,
	"rms_norm_eps": 1e-6, "vocab_size": 151936, "max_position_embeddings": 40960,
	"tie_word_embeddings": true, "quantization": {"group_size": 64, "bits": 4}}`

// BenchmarkVerify prints how many times as long as with one row a pass takes whose rows are the
// last token and drafts that are all right.
func BenchmarkVerify(b *testing.B) {
	for _, m := range []struct {
		name string
		src  engine.Source
	}{{"demo", demoSource(b)}, {"qwen3-0.6b", engine.Random([]byte(qwen3Shape))}} {
		e := openModel(b, m.src, engine.Options{ContextTokens: 4608,
			Speculate: engine.SpeculateAuto})
		for _, context := range []int{16, 4096} {
			r := engine.Request{Prompt: someIDs(3, context), MaxTokens: 65, IgnoreEOS: true}
			var answer []int32
			pass := func(rows int) float64 {
				e.AlwaysDraft(func(tokens []int32) []int32 {
					n := len(tokens) - context
					if rows == 1 || n >= len(answer) {
						return nil
					}
					return answer[n:min(n+rows-1, len(answer))]
				})
				tokens, _, done := collect(b, submit(b, e, r))
				answer = tokens
				passes := done.Usage.CompletionTokens - 1 - done.Usage.AcceptedTokens
				return done.Timing.Decode.Seconds() / float64(passes)
			}
			b.Run(fmt.Sprintf("%s/context=%d", m.name, context), func(b *testing.B) {
				pass(1)
				times := map[int][]float64{}
				rows := []int{1, 2, 4, 8}
				for b.Loop() {
					for range 9 {
						for _, n := range rows {
							times[n] = append(times[n], pass(n))
						}
					}
				}
				for _, n := range rows {
					slices.Sort(times[n])
					b.ReportMetric(times[n][len(times[n])/2]/times[1][len(times[1])/2],
						fmt.Sprintf("times-%d", n))
				}
				b.ReportMetric(times[1][len(times[1])/2]*1000, "ms/row")
			})
		}
	}
}

// TestLookupsOfInfo: the engine says whether tokens are looked up, alone or beside the block.
func TestLookupsOfInfo(t *testing.T) {
	for how, want := range map[string][2]any{engine.SpeculateAuto: {"mtp", true},
		engine.SpeculateLookup: {"", true}, engine.SpeculateMTP: {"mtp", false},
		engine.SpeculateOff: {"", false}} {
		i := open(t, engine.Options{Speculate: how}).Info()
		if got := [2]any{i.Drafter, i.Lookups}; got != want {
			t.Errorf("%q: %v, expected %v", how, got, want)
		}
	}
}
