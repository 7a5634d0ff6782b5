package engine_test

// Models with sliding windows in the whole engine: prefix cache, batches, preemption.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"headroom/engine"
	"headroom/engine/cache"
	"headroom/engine/problem"
)

// gemmaSource returns the tiny Gemma 3 of random weights: five layers with a window of 16 and one
// without, 2 KV heads of 32.
func gemmaSource(t testing.TB) engine.Source {
	t.Helper()
	return tinySource(t, "gemma3_text")
}

// someIDs returns n ids, which depend on the seed.
func someIDs(seed, n int) []int32 {
	ids := make([]int32, n)
	for i, x := 0, uint32(seed); i < n; i++ {
		x = x*1664525 + 1013904223
		ids[i] = 3 + int32(x>>8)%317
	}
	return ids
}

// answer is the tokens and log-probabilities of an answer, and how many prompt tokens were cached.
func answer(t testing.TB, s *engine.Stream) (tokens []int32, logprobs []float32, cached int) {
	t.Helper()
	for {
		e, err := s.Next(context.Background())
		if errors.Is(err, io.EOF) {
			return tokens, logprobs, cached
		}
		if err != nil || e.Err != nil {
			t.Fatal(err, e.Err)
		}
		if e.Type == engine.Token {
			tokens, logprobs = append(tokens, e.Token), append(logprobs, e.Logprob)
		}
		cached = e.Usage.CachedTokens
	}
}

// TestMixedLayersInEveryFormat runs a model with sliding windows and full attention in every cache
// format, with a prompt longer than the window and a second turn that continues the first. This
// crashed the server of mlx-lm with --kv-bits (pull request 1353).
func TestMixedLayersInEveryFormat(t *testing.T) {
	for _, o := range []engine.Options{
		{KVBits: "(8, 4)"}, {KVFormat: "q8_0"}, {KVFormat: "q4_0"}, {KVFormat: "f16"}, {},
		{KVBits: "(8, 4)", KVStartTokens: 512}, {KVBits: "(8, 4)", MaxKVTokens: 48},
		{KVFormat: "q8_0", MaxKVTokens: 48},
	} {
		o.MaxSequences, o.ChunkTokens, o.KeptStates, o.ContextTokens = 2, 40, 4, 512
		t.Run(fmt.Sprintf("%s %s %d", o.KVFormat, o.KVBits, o.MaxKVTokens), func(t *testing.T) {
			with := openModel(t, gemmaSource(t), o)
			o.NoPrefixCache = true
			without := openModel(t, gemmaSource(t), o)
			prompt := someIDs(1, 150)
			for turn := range 3 {
				r := engine.Request{Prompt: prompt, MaxTokens: 30, IgnoreEOS: true}
				got, gotLogprobs, cached := answer(t, submit(t, with, r))
				want, wantLogprobs, none := answer(t, submit(t, without, r))
				if !slices.Equal(got, want) || !slices.Equal(gotLogprobs, wantLogprobs) ||
					len(got) != 30 {
					t.Errorf("turn %d: got %v, cold %v", turn, got, want)
				}
				if expected := len(prompt) - 41; none != 0 || turn > 0 && cached != expected {
					t.Errorf(
						"turn %d: %d of %d prompt tokens were known, expected %d; %d without the "+
							"cache", turn, cached, len(prompt), expected, none)
				}
				// all but the answer's last token has been computed
				prompt = append(append(prompt, got...), someIDs(2+turn, 40)...)
				// writes over the slot it ran in
				answer(t, submit(t, with,
					engine.Request{Prompt: someIDs(100+turn, 90), MaxTokens: 2, IgnoreEOS: true}))
			}
			idle(t, with)
		})
	}
}

// TestRingsBatchedAndPreempted checks that many requests give the tokens that each gives alone,
// even if pages are short.
func TestRingsBatchedAndPreempted(t *testing.T) {
	request := func(i int) engine.Request {
		return engine.Request{Prompt: someIDs(i%3, 60+25*i), MaxTokens: 60, IgnoreEOS: true}
	}
	const requests = 6
	alone := openModel(t, gemmaSource(t),
		engine.Options{MaxSequences: 1, ChunkTokens: 64, ContextTokens: 512, NoPrefixCache: true})
	o := engine.Options{MaxSequences: 4, ChunkTokens: 50, ContextTokens: 320, KeptStates: 3}
	d, err := engine.Describe(gemmaSource(t), o)
	if err != nil {
		t.Fatal(err)
	}
	// 10 pages, half of what is free
	o.AvailableBytes = d.Need.TotalBytes() - d.Need.KVBytes +
		2*10*d.KVBytesPerToken*cache.PageTokens
	together := openModel(t, gemmaSource(t), o)
	var streams []*engine.Stream
	for i := range requests {
		streams = append(streams, submit(t, together, request(i)))
	}
	cancelled := submit(t, together, request(1))
	cancelled.Cancel()
	for i, s := range streams {
		want, _, _ := answer(t, submit(t, alone, request(i)))
		if got, _, _ := answer(t, s); !slices.Equal(got, want) {
			t.Errorf("request %d: got %v, alone %v", i, got, want)
		}
	}
	collect(t, cancelled)
	idle(t, together)
	if together.Stats().Preemptions == 0 {
		t.Error(
			"no request was preempted: the pages were not too few, and this test has not tested " +
				"that")
	}
}

// TestPagesAreFreeWithoutMemory checks that if every layer has a ring, pages have no memory, and no
// request is preempted for them.
func TestPagesAreFreeWithoutMemory(t *testing.T) {
	e := openModel(t, gemmaSource(t),
		engine.Options{MaxKVTokens: 48, MaxSequences: 4, ContextTokens: 128, KeptStates: 4})
	var streams []*engine.Stream
	for i := range 4 {
		streams = append(streams,
			submit(t, e, engine.Request{Prompt: someIDs(i, 30), IgnoreEOS: true}))
	}
	for i, s := range streams {
		if tokens, _, _ := answer(t, s); len(tokens) != 98 {
			t.Errorf("request %d: %d tokens, expected the context of 128 to be filled", i,
				len(tokens))
		}
	}
	if n := e.Stats().Preemptions; n != 0 {
		t.Errorf("%d preemptions", n)
	}
}

// TestRingMemory by hand: a page of f16 is 32 * 2 heads * 32 * 2 * 2 bytes = 8,192 a layer. Rings
// hold 16 + 52 - 1 positions in 3 pages, and with a limit of 48 the full layer's a page that stays
// and 44 + 52 - 1 positions in 3.
func TestRingMemory(t *testing.T) {
	const page = 8192
	for _, c := range []struct {
		maxKVTokens          int
		perToken, perSeq, kv int64
		words                string
	}{
		{0, page / 32, 5 * 3 * page, 16 * 2 * page, "f16; 5 of 6 layers keep 16 tokens"},
		{48, 0, (5*3 + 4) * page, 0,
			"f16; 5 of 6 layers keep 16 tokens; 1 of 6 layers keep 48 tokens"},
		// no sequence gets longer
		{512, page / 32, 5 * 3 * page, 16 * 2 * page, "f16; 5 of 6 layers keep 16 tokens"},
	} {
		e := openModel(t, gemmaSource(t),
			engine.Options{KVFormat: "f16", MaxKVTokens: c.maxKVTokens, ContextTokens: 512,
				MaxSequences: 2, ChunkTokens: 50, KeptStates: 4})
		i := e.Info()
		if i.KVBytesPerToken != c.perToken || i.StateBytesPerSeq != c.perSeq ||
			i.Need.StateBytes != 6*c.perSeq || i.Need.KVBytes != c.kv || i.KVFormat != c.words {
			t.Errorf(
				"limit %d: %d bytes a token, %d a sequence, state %d, pages %d, %q, expected %d, "+
					"%d, %d, %d, %q", c.maxKVTokens,
				i.KVBytesPerToken, i.StateBytesPerSeq, i.Need.StateBytes, i.Need.KVBytes,
				i.KVFormat, c.perToken, c.perSeq, 6*c.perSeq, c.kv, c.words)
		}
		if s := e.Stats(); s.StateBytes != i.Need.StateBytes || s.KVBytes != i.Need.KVBytes {
			t.Errorf("limit %d: stats %+v", c.maxKVTokens, s)
		}
	}
}

// TestMaxKVTokens checks that with the limit, memory does not bound the context, and that a hybrid
// model answers far beyond the limit and reuses its prefixes.
func TestMaxKVTokens(t *testing.T) {
	o := engine.Options{MaxKVTokens: 128, MaxSequences: 2, KeptStates: 4, ChunkTokens: 64}
	d, err := engine.Describe(demoSource(t), o)
	if err != nil {
		t.Fatal(err)
	}
	o.AvailableBytes = d.Need.TotalBytes()
	e := open(t, o)
	if i := e.Info(); i.Need.KVBytes != 0 || i.KVBytesPerToken != 0 ||
		i.ContextTokens != d.ContextTokens || !strings.HasSuffix(i.KVFormat, "; 128 tokens") {
		t.Errorf("%+v, expected the model's own context and no pages", i)
	}
	o.NoPrefixCache = true
	without := open(t, o)
	text := "<|im_start|>system\n" + strings.Repeat("Answer briefly. ", 60) + "<|im_end|>\n"
	for range 2 {
		text += question
		r := engine.Request{Prompt: encode(e, text), MaxTokens: 12}
		got, logprobs, cached := answer(t, submit(t, e, r))
		want, wantLogprobs, _ := answer(t, submit(t, without, r))
		if !slices.Equal(got, want) || !slices.Equal(logprobs, wantLogprobs) {
			t.Errorf("got %v, cold %v", got, want)
		}
		if strings.Count(text, question) > 1 && cached < 180 {
			t.Errorf("%d of %d prompt tokens were known, expected at least the system prompt",
				cached, len(r.Prompt))
		}
		text += "<|im_end|>\n"
	}
	for _, n := range []int{-1, 31} {
		if _, err := engine.Describe(demoSource(t),
			engine.Options{MaxKVTokens: n}); problem.From(err).Code != problem.BadRequest {
			t.Errorf("limit %d: %v, expected a bad request", n, err)
		}
	}
}
