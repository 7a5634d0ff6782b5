package engine_test

// On an asynchronous device, a step is launched before the tokens of the previous step are known.
// The tokens must not change, and only computed tokens may be cached.

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"headroom/engine"
	"headroom/engine/cache"
	"headroom/engine/sample"
	"headroom/kernels"
)

// asyncDevice makes the device that it wraps asynchronous, if it is not already. It records every
// commit, wait and sync.
type asyncDevice struct {
	kernels.Device
	commits kernels.Ticket
	events  []string

	failing bool                // every Wait fails
	before  func(op kernels.Op) // called before each operator; may be nil
}

func (d *asyncDevice) Run(op kernels.Op) {
	if d.before != nil {
		d.before(op)
	}
	d.Device.Run(op)
}

func (d *asyncDevice) Commit() kernels.Ticket {
	d.commits++
	d.events = append(d.events, fmt.Sprint("commit ", d.commits))
	if real, ok := d.Device.(kernels.AsyncDevice); ok {
		if t := real.Commit(); t != d.commits {
			d.events = append(d.events, fmt.Sprintf("%d command buffers so far", t))
			d.commits = t
		}
	}
	return d.commits
}

func (d *asyncDevice) Wait(t kernels.Ticket) error {
	d.events = append(d.events, fmt.Sprint("wait ", t))
	if d.failing {
		return errors.New("the GPU has gone")
	}
	if real, ok := d.Device.(kernels.AsyncDevice); ok {
		return real.Wait(t)
	}
	return nil
}

func (d *asyncDevice) Sync() error {
	d.events = append(d.events, "sync")
	return d.Device.Sync()
}

// makeAsync makes the device of a newly opened engine asynchronous.
func makeAsync(e *engine.Engine) *asyncDevice {
	var d *asyncDevice
	e.ReplaceDevice(func(inner kernels.Device) kernels.Device {
		d = &asyncDevice{Device: inner}
		return d
	})
	return d
}

// samplings returns sampling parameters of all kinds. Logprobs is -1 in all of them, because
// logprobs would make steps synchronous.
func samplings() []sample.Params {
	all := []sample.Params{
		{}, {Temperature: 1}, {Temperature: 0.6, TopK: 20, TopP: 0.95},
		{Temperature: 1.5, MinP: 0.05}, {Temperature: 2, TopP: 0.5}, {Temperature: 3, TopK: 3},
		{RepetitionPenalty: 1.3},
		{PresencePenalty: 1.5, FrequencyPenalty: 0.5, RepetitionContextTokens: 5},
		{FrequencyPenalty: -2, RepetitionContextTokens: 1},
		{Temperature: 1.2, TopK: 40, TopP: 0.9, MinP: 0.01, RepetitionPenalty: 1.1,
			PresencePenalty: 0.2, FrequencyPenalty: 0.1, RepetitionContextTokens: 64},
		{LogitBias: map[int32]float32{7: 3, 9: -100}},
		{Temperature: 1, LogitBias: map[int32]float32{7: 20, 12: 20, 13: 19}, PresencePenalty: 2},
		{Temperature: 1, PresencePenalty: 2, RepetitionContextTokens: 300}, // sampled on the host
	}
	for i := range all {
		seed := uint64(i)
		all[i].Seed, all[i].Logprobs = &seed, -1
	}
	return all
}

// onHost returns r with logprobs, so that its tokens are sampled on the host.
func onHost(r engine.Request) engine.Request {
	r.Sampling.Logprobs = 0
	return r
}

// TestAsyncSampling checks that the device samples the same tokens as the host. It uses sampling
// parameters of all kinds, first one request at a time, then all requests in a batch.
func TestAsyncSampling(t *testing.T) {
	e := openModel(t, tinySource(t, "qwen3_5_text"),
		engine.Options{ContextTokens: 256, MaxSequences: 12, ChunkTokens: 48})
	d := makeAsync(e)
	var want [][]int32
	var together []*engine.Stream
	requests := []engine.Request{}
	for i, s := range samplings() {
		requests = append(requests,
			engine.Request{Prompt: someIDs(i, 30+9*i), MaxTokens: 40, IgnoreEOS: true, Sampling: s})
		want = append(want, run(t, e, onHost(requests[i]), 0).tokens)
	}
	if slices.ContainsFunc(d.events, func(s string) bool { return s != "sync" }) {
		t.Errorf("with logprobs: events %v, expected only sync", d.events)
	}
	for i, r := range requests {
		if got := run(t, e, r, 0).tokens; !slices.Equal(got, want[i]) {
			t.Errorf("%+v: on the device %v, on the host %v", r.Sampling, got, want[i])
		}
	}
	for _, r := range requests {
		together = append(together, submit(t, e, r))
	}
	for i, s := range together {
		if got, _, done := collect(t, s); !slices.Equal(got, want[i]) {
			t.Errorf("%+v: in a batch %v (%v), on the host %v", requests[i].Sampling, got, done.Err,
				want[i])
		}
	}
	idle(t, e)
	if err := e.CheckMemory(); err != nil {
		t.Error(err)
	}
}

// TestAsyncOrder checks that a step is launched before the loop waits for the previous one, and
// that each token takes one commit.
func TestAsyncOrder(t *testing.T) {
	e := openModel(t, tinySource(t, "qwen3"),
		engine.Options{ContextTokens: 128, MaxSequences: 2, ChunkTokens: 32})
	d := makeAsync(e)
	got := run(t, e, engine.Request{Prompt: someIDs(3, 20), MaxTokens: 5, IgnoreEOS: true,
		Sampling: sample.Params{Logprobs: -1}}, 0)
	const want = "commit 1, commit 2, wait 1, commit 3, wait 2, commit 4, wait 3, commit 5, " +
		"wait 4, wait 5"
	if events := strings.Join(d.events, ", "); events != want || len(got.tokens) != 5 {
		t.Errorf("%d tokens with\n%s, expected\n%s", len(got.tokens), events, want)
	}
}

// TestAsyncFinish ends an answer in every possible way. The tokens must be those of a synchronous
// engine. The next turn must resume after computed tokens only, and give the tokens of a cold
// start.
func TestAsyncFinish(t *testing.T) {
	o := engine.Options{ContextTokens: 512, KeptStates: 16}
	for _, c := range []struct {
		name    string
		request engine.Request
		cancel  int
		finish  engine.FinishReason
		more    int // tokens at the end of the answer that are not cached; -1: not checked
	}{
		{"stop token", engine.Request{}, 0, engine.FinishStop, 0},
		{"stop text", engine.Request{Stop: []string{"a"}}, 0, engine.FinishStop, 0},
		{"length", engine.Request{MaxTokens: 7, IgnoreEOS: true}, 0, engine.FinishLength, 1},
		{"one token", engine.Request{MaxTokens: 1}, 0, engine.FinishLength, 1},
		{"past the end token", engine.Request{MaxTokens: 60, IgnoreEOS: true}, 0,
			engine.FinishLength, 1},
		{"cancelled", engine.Request{IgnoreEOS: true}, 5, engine.FinishCancelled, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := open(t, o)
			makeAsync(e)
			c.request.Sampling.Logprobs = -1
			c.request.Prompt = encode(e,
				system("Answer briefly. ", 4)+
					"<|im_start|>user\nWhat is a KV "+
					"cache?<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n")
			cold := open(t, engine.Options{NoPrefixCache: true, ContextTokens: 512})
			first, same := run(t, e, c.request, c.cancel), run(t, cold, c.request, c.cancel)
			n := len(first.tokens)
			if c.cancel > 0 {
				n = min(n, len(same.tokens))
			}
			if first.done.Finish != c.finish || !slices.Equal(first.tokens[:n], same.tokens[:n]) ||
				c.cancel == 0 && n != len(same.tokens) {
				t.Fatalf("finish %q with %v, expected %q with %v", first.done.Finish, first.tokens,
					c.finish, same.tokens)
			}
			if err := e.CheckMemory(); err != nil {
				t.Error(err)
			}
			next := engine.Request{MaxTokens: 20, IgnoreEOS: true,
				Sampling: sample.Params{Logprobs: -1},
				Prompt: slices.Concat(c.request.Prompt, first.tokens,
					encode(e,
						"<|im_end|>\n<|im_start|>user\nGo on.<|im_end|>\n<|im_start|>assistant\n"))}
			got, want := run(t, e, next, 0), run(t, cold, next, 0)
			if !slices.Equal(got.tokens, want.tokens) {
				t.Errorf("next turn: %v, from a cold start %v", got.tokens, want.tokens)
			}
			known := got.done.Usage.CachedTokens - len(c.request.Prompt)
			if all := len(first.tokens); c.more >= 0 && known != all-c.more || known > all ||
				known < all-1 {
				t.Errorf("%d of %d tokens of the answer were cached, expected all but %d", known,
					all, c.more)
			}
		})
	}
}

// withFewPages returns o with memory for just 5 pages of 32 tokens.
func withFewPages(t *testing.T, src engine.Source, o engine.Options) engine.Options {
	t.Helper()
	d, err := engine.Describe(src, o)
	if err != nil {
		t.Fatal(err)
	}
	// Half of the free memory is for pages.
	o.AvailableBytes = d.Need.TotalBytes() - d.Need.KVBytes + 2*5*d.KVBytesPerToken*cache.PageTokens
	return o
}

// TestAsyncCrowd runs requests with common prefixes that arrive, end and are cancelled at random
// times. Some are preempted, because there are too few pages. A request that is not cancelled must
// give the same tokens as alone, and no memory may leak.
func TestAsyncCrowd(t *testing.T) {
	// With few pages there are no slots for the states before drafts.
	enough := func(_ *testing.T, _ engine.Source, o engine.Options) engine.Options { return o }
	for _, model := range []string{"qwen3_5_text", "qwen3"} { // with recurrent states and without
		forDrafts := withFewPages
		if model != "qwen3" {
			forDrafts = enough
		}
		src := tinySource(t, model)
		t.Run(model, func(t *testing.T) {
			testAsyncCrowd(t, src, withFewPages, func(*engine.Engine, [][]int32) {})
		})
		t.Run(model+", drafts", func(t *testing.T) {
			testAsyncCrowd(t, src, forDrafts, func(e *engine.Engine, answers [][]int32) {
				d := &drafter{r: rand.New(rand.NewPCG(1, 9)), vocab: 300, depth: 4, wrong: 0.3,
					answers: answers}
				calls := 0
				e.AlwaysDraft(func(tokens []int32) []int32 {
					if calls++; calls%7 < 3 { // steps with drafts and without alternate
						return nil
					}
					return d.propose(tokens)
				})
			})
		})
	}
	for _, model := range []string{"qwen3_5_text", "deepseek_v3"} {
		t.Run(model+"'s own drafts", func(t *testing.T) {
			testAsyncCrowd(t, ownBlock(model)(t), enough,
				func(e *engine.Engine, _ [][]int32) { e.DraftDepth(3) })
		})
	}
}

// testAsyncCrowd adds the memory to the options, and calls prepare with the engine and with prompts
// and their answers.
func testAsyncCrowd(t *testing.T, src engine.Source,
	memory func(*testing.T, engine.Source, engine.Options) engine.Options,
	prepare func(e *engine.Engine, answers [][]int32)) {
	o := engine.Options{MaxSequences: 4, ChunkTokens: 40, ContextTokens: 128, KeptStates: 4}
	var all []engine.Request
	params := samplings()
	for i := range 48 {
		r := engine.Request{Prompt: append(someIDs(i%5, 10+15*(i%4)), someIDs(i%9, 5)...),
			MaxTokens: 5 + 7*(i%8), Sampling: params[i%len(params)], Priority: i % 2,
			IgnoreEOS: i%3 > 0}
		if i%5 == 0 {
			r.Stop = []string{"e"}
		}
		all = append(all, r)
	}
	alone := openModel(t, src, engine.Options{MaxSequences: 1, ContextTokens: 128})
	var want, answers [][]int32
	for _, r := range all {
		want = append(want, run(t, alone, r, 0).tokens)
		answers = append(answers, slices.Concat(r.Prompt, want[len(want)-1]))
	}
	o.Speculate = engine.SpeculateAuto
	e := openModel(t, src, memory(t, src, o))
	makeAsync(e)
	prepare(e, answers)
	var crowd sync.WaitGroup
	for who := range 8 {
		crowd.Go(func() {
			r := rand.New(rand.NewPCG(uint64(who), 1))
			for i := who; i < len(all); i += 8 {
				if request := all[i]; r.IntN(4) == 0 {
					request.MaxTokens = 0
					run(t, e, request, 1+r.IntN(9))
					continue
				}
				if got := run(t, e, all[i], 0); got.done.Finish == engine.FinishError ||
					!slices.Equal(got.tokens, want[i]) {
					t.Errorf("request %d: %v (%s, %v), alone %v", i, got.tokens, got.done.Finish,
						got.done.Err, want[i])
				}
			}
		})
	}
	crowd.Wait()
	idle(t, e)
	if err := e.CheckMemory(); err != nil {
		t.Error(err)
	}
	for _, known := range e.CachedPrefixes() {
		if slices.Min(known.Tokens) < 0 {
			t.Errorf("a cached prefix contains a placeholder: %v", known.Tokens)
		}
	}
	// The number depends on timing. TestMetalAsync requires at least one.
	s := e.Stats()
	t.Logf("%d preemptions, %d of %d drafts right", s.Preemptions, s.AcceptedTokens, s.DraftTokens)
}

// TestAsyncFaults checks that a panic while a step is recorded ends the requests of that step,
// after the tokens of the step in flight have been delivered. When the device fails, all requests
// end. The engine continues and can be closed.
func TestAsyncFaults(t *testing.T) {
	e := openModel(t, tinySource(t, "qwen3_5_text"),
		engine.Options{ContextTokens: 128, MaxSequences: 2, ChunkTokens: 32})
	d := makeAsync(e)
	r := engine.Request{Prompt: someIDs(3, 20), MaxTokens: 9, IgnoreEOS: true,
		Sampling: sample.Params{Logprobs: -1}}
	want := run(t, e, r, 0).tokens
	for fault := range 4 {
		feeds := 0 // one per step
		d.before = func(op kernels.Op) {
			if op.Name() == "feed" {
				feeds++
			}
			if feeds == fault+1 && op.Name() == "choose" {
				panic("a fault in a kernel")
			}
		}
		got := run(t, e, r, 0)
		if got.done.Finish != engine.FinishError ||
			!strings.Contains(got.done.Err.Error(), "a fault in a kernel") ||
			!slices.Equal(got.tokens, want[:fault]) {
			t.Errorf("panic in step %d: %v (%s, %v), expected %v", fault, got.tokens,
				got.done.Finish, got.done.Err, want[:fault])
		}
		d.before = nil
		if got := run(t, e, r, 0); !slices.Equal(got.tokens, want) {
			t.Errorf("after a panic %v (%v), expected %v", got.tokens, got.done.Err, want)
		}
		if err := e.CheckMemory(); err != nil {
			t.Error(err)
		}
	}
	n := 0
	d.before = func(op kernels.Op) {
		if op.Name() == "choose" {
			n++
			d.failing = n >= 4 // permanently, like a real GPU
		}
	}
	for range 2 {
		if got := run(t, e, r, 0); n < 4 || got.done.Finish != engine.FinishError ||
			!strings.Contains(got.done.Err.Error(), "the GPU has gone") {
			t.Errorf("with a device that fails: %v (%s, %v), expected the error of the device",
				got.tokens, got.done.Finish, got.done.Err)
		}
	}
	idle(t, e)
}

// TestMetalAsync runs streams on Metal devices, which run one pass while the next is recorded. Some
// streams are cancelled and some are preempted. All must have the tokens that the host samples from
// the logits of the same device, one stream at a time. Each token must take one command buffer.
func TestMetalAsync(t *testing.T) {
	onMetalDevices(t, testMetalAsync)
}

func testMetalAsync(t *testing.T, device string) {
	src := tinySource(t, "qwen3_5_text")
	e := openMetal(t, device, src,
		withFewPages(t, src, engine.Options{ContextTokens: 128, MaxSequences: 3, ChunkTokens: 32,
			KeptStates: 4}))
	d := makeAsync(e)
	var all []engine.Request
	var want [][]int32
	for i, s := range samplings() {
		if !long() && device == engine.DeviceSim && i%3 == 1 {
			continue
		}
		r := engine.Request{Prompt: someIDs(i/2, 20+3*i), MaxTokens: 10 + i, IgnoreEOS: i%3 > 0,
			Sampling: s}
		all, want = append(all, r), append(want, run(t, e, onHost(r), 0).tokens)
	}
	if compileOnly { // compile the kernels for several rows too
		var streams []*engine.Stream
		for _, r := range all {
			streams = append(streams, submit(t, e, r))
		}
		for _, s := range streams {
			collect(t, s)
		}
		return
	}
	var before kernels.Ticket
	for range 2 { // the first run sets d.commits to the device's count
		before = d.commits
		if got := run(t, e, all[1], 0); !slices.Equal(got.tokens, want[1]) {
			t.Errorf("alone %v (%v), on the host %v", got.tokens, got.done.Err, want[1])
		}
	}
	// The first pass finds the GPU idle, and gets a command buffer of its first dispatches.
	if n := int(d.commits - before); n != len(want[1])+1 {
		t.Errorf("%d command buffers for %d tokens, expected one per token, and one for the first "+
			"dispatches", n, len(want[1]))
	}
	var streams []*engine.Stream
	for i, r := range all {
		if i%4 == 3 {
			streams[i-2].Cancel()
		}
		streams = append(streams, submit(t, e, r))
	}
	for i, s := range streams {
		got, _, done := collect(t, s)
		if done.Finish == engine.FinishCancelled {
			want[i] = want[i][:min(len(got), len(want[i]))]
		}
		if done.Finish == engine.FinishError || !slices.Equal(got, want[i]) {
			t.Errorf("request %d: %v (%s, %v), on the host %v", i, got, done.Finish, done.Err,
				want[i])
		}
	}
	idle(t, e)
	if err := e.CheckMemory(); err != nil {
		t.Error(err)
	}
	if e.Stats().Preemptions == 0 {
		t.Error("no request was preempted, so preemption was not tested")
	}
}

// TestMetalStored checks that blocks hold the right values if they are written while the device is
// busy. After a restart the conversation must resume from them, and give the tokens of a cold
// start.
func TestMetalStored(t *testing.T) {
	if testing.Short() {
		t.Skip("the simulated device is slow")
	}
	src, dir := tinySource(t, "qwen3_5_text"), t.TempDir()
	o := engine.Options{ContextTokens: 512, MaxSequences: 2, ChunkTokens: 64, KeptStates: 8}
	r := engine.Request{Prompt: someIDs(9, 270), MaxTokens: 6, IgnoreEOS: true,
		Sampling: sample.Params{Logprobs: -1}}
	cold := openSim(t, src, o)
	first := run(t, cold, r, 0)
	next := r
	next.Prompt = slices.Concat(r.Prompt, first.tokens, someIDs(10, 5))
	cold.Close()
	o.NoPrefixCache = true
	want := run(t, openSim(t, src, o), next, 0)
	o.NoPrefixCache = false
	for i := range 2 {
		o.BlockStore = openStore(t, dir)
		e := openSim(t, src, o)
		if i == 0 {
			if again := run(t, e, r, 0); !slices.Equal(again.tokens, first.tokens) {
				t.Errorf("with a block store %v, without %v", again.tokens, first.tokens)
			}
		} else if got := run(t, e, next, 0); !slices.Equal(got.tokens, want.tokens) ||
			got.done.Usage.StoredTokens < len(r.Prompt) {
			t.Errorf("after %d tokens from disk %v (%v), from a cold start %v",
				got.done.Usage.StoredTokens, got.tokens, got.done.Err, want.tokens)
		}
		e.Close()
		o.BlockStore.Close()
	}
}
