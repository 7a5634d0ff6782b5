package engine_test

// Tests of models with sliding windows in the whole engine: prefix cache, batches, preemption.

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

// someIDs returns n pseudorandom token ids for a seed.
func someIDs(seed, n int) []int32 {
	ids := make([]int32, n)
	for i, x := 0, uint32(seed); i < n; i++ {
		x = x*1664525 + 1013904223
		ids[i] = 3 + int32(x>>8)%317
	}
	return ids
}

// answer reads a stream to its end. It returns the tokens and log-probabilities of the answer, and
// the number of cached prompt tokens.
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

// TestMixedLayersInEveryFormat runs each model with sliding windows and full attention in every
// cache format, without HEADROOM_LONG in half of them by turns. The prompt is longer than the
// windows, and later turns continue the first one. Such a model crashed the server of mlx-lm with
// --kv-bits (pull request 1353).
func TestMixedLayersInEveryFormat(t *testing.T) {
	n := 0
	eachArchitecture(t, func(t *testing.T, src engine.Source, c engine.CacheCost) {
		if c.RingBytes == 0 || c.BytesPerToken == 0 {
			t.Skip("all layers are of one kind")
		}
		n++
		for i, o := range []engine.Options{
			{KVBits: "(8, 4)"}, {KVFormat: "q8_0"}, {KVFormat: "q4_0"}, {KVFormat: "f16"}, {},
			{KVBits: "(8, 4)", KVStartTokens: 512}, {KVBits: "(8, 4)", MaxKVTokens: 48},
			{KVFormat: "q8_0", MaxKVTokens: 48},
		} {
			if !long() && i%2 != n%2 {
				continue
			}
			o.MaxSequences, o.ChunkTokens, o.KeptStates, o.ContextTokens = 2, 40, 4, 512
			t.Run(fmt.Sprintf("%s %s %d", o.KVFormat, o.KVBits, o.MaxKVTokens),
				func(t *testing.T) { testTurns(t, src, o) })
		}
	})
}

// testTurns compares the turns of a conversation with and without a prefix cache.
func testTurns(t *testing.T, src engine.Source, o engine.Options) {
	with := openModel(t, src, o)
	o.NoPrefixCache = true
	without := openModel(t, src, o)
	prompt := someIDs(1, 150)
	for turn := range 3 {
		r := engine.Request{Prompt: prompt, MaxTokens: 30, IgnoreEOS: true}
		got, gotLogprobs, cached := answer(t, submit(t, with, r))
		want, wantLogprobs, none := answer(t, submit(t, without, r))
		if !slices.Equal(got, want) || !slices.Equal(gotLogprobs, wantLogprobs) || len(got) != 30 {
			t.Errorf("turn %d: got %v, cold %v", turn, got, want)
		}
		if expected := len(prompt) - 41; none != 0 || turn > 0 && cached != expected {
			t.Errorf("turn %d: %d of %d prompt tokens were cached, expected %d; "+
				"%d without the cache, expected 0", turn, cached, len(prompt), expected, none)
		}
		// The answer's last token has not been computed, so the next turn computes 41 tokens.
		prompt = append(append(prompt, got...), someIDs(2+turn, 40)...)
		// Another request overwrites the slot in which this one ran.
		answer(t, submit(t, with,
			engine.Request{Prompt: someIDs(100+turn, 90), MaxTokens: 2, IgnoreEOS: true}))
	}
	idle(t, with)
}

// TestBatchedAndPreempted checks that many concurrent requests give the same log-probabilities as
// each of them alone, even if there are too few pages. The short form alternates between the
// default cache format and float16.
func TestBatchedAndPreempted(t *testing.T) {
	formats, n := []string{"", "f16"}, 0
	eachArchitecture(t, func(t *testing.T, src engine.Source, _ engine.CacheCost) {
		chosen := formats[n%2 : n%2+1]
		if n++; long() {
			chosen = formats
		}
		for _, format := range chosen {
			testPreempted(t, src, format)
		}
	})
}

func testPreempted(t *testing.T, src engine.Source, format string) {
	request := func(i int) engine.Request {
		return engine.Request{Prompt: someIDs(i%3, 60+25*i), MaxTokens: 60, IgnoreEOS: true}
	}
	const requests = 6
	alone := openModel(t, src, engine.Options{KVFormat: format, MaxSequences: 1, ChunkTokens: 64,
		ContextTokens: 512, NoPrefixCache: true})
	o := engine.Options{KVFormat: format, MaxSequences: 4, ChunkTokens: 50, ContextTokens: 320,
		KeptStates: 3}
	d, err := engine.Describe(src, o)
	if err != nil {
		t.Fatal(err)
	}
	// Half of the free memory is for pages: 10 of them.
	o.AvailableBytes = d.Need.TotalBytes() - d.Need.KVBytes +
		2*10*d.KVBytesPerToken*cache.PageTokens
	together := openModel(t, src, o)
	var streams []*engine.Stream
	for i := range requests {
		streams = append(streams, submit(t, together, request(i)))
	}
	cancelled := submit(t, together, request(1))
	cancelled.Cancel()
	for i, s := range streams {
		want, wantLogprobs, _ := answer(t, submit(t, alone, request(i)))
		got, logprobs, _ := answer(t, s)
		if !slices.Equal(got, want) || !slices.Equal(logprobs, wantLogprobs) {
			t.Errorf("%q, request %d: got %v, alone %v", format, i, got, want)
		}
	}
	collect(t, cancelled)
	idle(t, together)
	if together.Stats().Preemptions == 0 {
		t.Errorf("%q: no request was preempted, so preemption was not tested", format)
	}
}

// TestPagesAreFreeWithoutMemory checks models in which every attention layer has a ring. Their
// pages use no memory, so no request may be preempted because of them.
func TestPagesAreFreeWithoutMemory(t *testing.T) {
	eachArchitecture(t, func(t *testing.T, src engine.Source, _ engine.CacheCost) {
		e := openModel(t, src, engine.Options{MaxKVTokens: 48, MaxSequences: 4, ContextTokens: 128,
			KeptStates: 4})
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
			t.Errorf("%d preemptions, expected none", n)
		}
	})
}

// TestRingMemory compares the memory of Gemma 3 with sizes computed by hand. It has five layers
// with a window of 16 and one without a window, all with 2 KV heads of 32 values. A page in f16 has
// 32 positions for K and for V, or 8,192 bytes per layer. The ring of a sliding-window layer holds
// 16 + 52 - 1 positions in 3 pages. With a limit of 48 tokens, the ring of the full-attention layer
// holds the sinks in 1 page and 44 + 52 - 1 positions in 3 pages.
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
		// No sequence can be longer than 512 tokens, so the limit has no effect.
		{512, page / 32, 5 * 3 * page, 16 * 2 * page, "f16; 5 of 6 layers keep 16 tokens"},
	} {
		e := openModel(t, tinySource(t, "gemma3_text"),
			engine.Options{KVFormat: "f16", MaxKVTokens: c.maxKVTokens, ContextTokens: 512,
				MaxSequences: 2, ChunkTokens: 50, KeptStates: 4})
		i := e.Info()
		if i.KVBytesPerToken != c.perToken || i.StateBytesPerSeq != c.perSeq ||
			i.Need.StateBytes != 6*c.perSeq || i.Need.KVBytes != c.kv/2 ||
			i.Need.GrowthBytes != c.kv/2 || i.KVFormat != c.words {
			t.Errorf("limit %d: bytes per token %d, per sequence %d, of states %d, of pages %d, "+
				"%q, expected %d, %d, %d, %d, %q", c.maxKVTokens,
				i.KVBytesPerToken, i.StateBytesPerSeq, i.Need.StateBytes, i.Need.KVBytes,
				i.KVFormat, c.perToken, c.perSeq, 6*c.perSeq, c.kv/2, c.words)
		}
		if s := e.Stats(); s.StateBytes != 0 || s.KVBytes != 0 ||
			s.ReservedBytes != i.Need.StateBytes+i.Need.KVBytes ||
			s.GrowthBytes != i.Need.GrowthBytes {
			t.Errorf("limit %d: stats %+v differ from the needed memory %+v", c.maxKVTokens, s,
				i.Need)
		}
	}
}

// TestMaxKVTokens checks that with MaxKVTokens, the context is not limited by memory. A hybrid
// model must answer prompts far longer than the limit, and resume its cached prefixes.
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
			t.Errorf("%d of %d prompt tokens were cached, expected at least the system prompt",
				cached, len(r.Prompt))
		}
		text += "<|im_end|>\n"
	}
	for _, n := range []int{-1, 31} {
		if _, err := engine.Describe(demoSource(t),
			engine.Options{MaxKVTokens: n}); problem.From(err).Code != problem.BadRequest {
			t.Errorf("limit %d: got %v, expected a bad request", n, err)
		}
	}
}
