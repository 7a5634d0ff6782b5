package engine_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"headroom/engine"
	"headroom/engine/problem"
	"headroom/engine/sample"
)

// TestKVFormat compares with sizes computed by hand for six attention layers with 2 KV heads of 128
// values. For the keys or values of a token in one layer, K8 g64 takes 272 bytes, V4 g32 160, V8
// g32 288 and q4_0 144. f16 takes 1,024 bytes for both together. The first and last two layers have
// V8.
func TestKVFormat(t *testing.T) {
	for _, test := range []struct {
		o     engine.Options
		words string
		bytes int64
	}{
		{engine.Options{}, "K8 g64 + V4 g32, first and last 2 layers K8 V8", 2*432 + 4*560},
		{engine.Options{KVFormat: "affine", KVBoundaryLayers: -1}, "K8 g64 + V4 g32", 6 * 432},
		{engine.Options{KVBits: "(6, 4)", KVGroupSize: "64", KVBoundaryLayers: 1,
			KVBoundaryBits: 6}, "K6 g64 + V4 g64, first and last layer K6 V6", 4*352 + 2*416},
		{engine.Options{KVFormat: "f16"}, "f16", 6 * 1024},
		{engine.Options{KVFormat: "q4_0"}, "q4_0", 6 * 288},
	} {
		o := test.o
		o.ContextTokens, o.MaxSequences = 512, 1
		e := open(t, o)
		if i := e.Info(); i.KVFormat != test.words || i.KVBytesPerToken != test.bytes ||
			i.Need.KVBytes%(32*test.bytes) != 0 {
			t.Errorf("%+v: %q, %d bytes per token, expected %q, %d", test.o, i.KVFormat,
				i.KVBytesPerToken, test.words, test.bytes)
		}
		_, text, done := collect(t,
			submit(t, e, engine.Request{Prompt: []int32{1, 2, 3, 4, 5}, MaxTokens: 4,
				Sampling: sample.Params{}}))
		if done.Usage.CompletionTokens == 0 {
			t.Errorf("%s: no tokens generated, text %q", test.words, text)
		}
	}
	for _, o := range []engine.Options{{KVFormat: "q8"}, {KVBits: "7"},
		{KVFormat: "f16", KVBits: "8"}} {
		_, err := engine.Describe(demoSource(t), o)
		var p *problem.Problem
		if !errors.As(err, &p) || p.Code != problem.BadRequest ||
			!strings.Contains(p.Error(), "KV cache format") {
			t.Errorf("%+v: got %v, expected a bad request about the format", o, err)
		}
	}
}

// TestKVStart compares with sizes computed by hand. A token takes 6,144 bytes in a start page and
// 3,104 bytes in another page, and 512 start tokens take 16 pages. There are start pages for two
// conversations per running sequence, and other pages for one context per running sequence. Pages
// for one conversation are needed; the pool grows by the others as they are used.
func TestKVStart(t *testing.T) {
	const startPage, page = 32 * 6144, 32 * 3104
	for _, test := range []struct {
		context, start, sequences int
		kv                        int64
	}{
		{1024, 500, 1, 2*16*startPage + 16*page},
		{1024, 500, 2, 4*16*startPage + 2*16*page},
		{512, 500, 1, 2 * 16 * startPage},
		{480, 500, 1, 2 * 15 * startPage},
		{2048, 513, 1, 2*32*startPage + 32*page},
	} {
		o := engine.Options{KVStartTokens: test.start, ContextTokens: test.context,
			MaxSequences: test.sequences, KeptStates: 4}
		e := open(t, o)
		i := e.Info()
		first := min(test.context, i.KVStartTokens) // a multiple of the page size
		touched := int64(first/32*startPage + (test.context-first)/32*page)
		if i.Need.KVBytes+i.Need.GrowthBytes != test.kv || i.Need.KVBytes != touched ||
			i.KVStartBytesPerToken != 6144 ||
			i.KVBytesPerToken != 3104 || i.KVStartTokens != (test.start+511)/512*512 {
			t.Errorf("%+v: %+v, expected %d bytes of pages; %+v", test, i.Need, test.kv,
				i.Description)
		}
		if i.KVBytes(600) != min(600, int64(i.KVStartTokens))*6144+max(0,
			600-int64(i.KVStartTokens))*3104 {
			t.Errorf("%+v: KVBytes(600) = %d", test, i.KVBytes(600))
		}
		_, _, done := collect(t,
			submit(t, e, engine.Request{Prompt: someIDs(3, test.context-20), MaxTokens: 19,
				IgnoreEOS: true}))
		if done.Usage.CompletionTokens != 19 {
			t.Errorf("%+v: %+v, expected 19 generated tokens", test, done)
		}
		idle(t, e)
		if s := e.Stats(); s.KVBytes != touched ||
			s.KVBytes+s.StateBytes+s.ReservedBytes+s.GrowthBytes != test.kv+i.Need.StateBytes {
			t.Errorf("%+v: %+v, expected %d bytes of %d touched", test, s, touched, test.kv)
		}
	}
	if _, err := engine.Describe(demoSource(t),
		engine.Options{KVStartTokens: -1}); problem.From(err).Code != problem.BadRequest {
		t.Errorf("KVStartTokens -1: got %v, expected a bad request", err)
	}
}

// TestStartsBatchedAndPreempted checks that requests in a batch give the same tokens as alone, even
// if there are too few pages of either kind.
func TestStartsBatchedAndPreempted(t *testing.T) {
	request := func(i int) engine.Request { // every third one needs start pages only
		r := engine.Request{Prompt: someIDs(i%4, 490), MaxTokens: 130, IgnoreEOS: true}
		if i%3 == 0 {
			r.Prompt, r.MaxTokens = someIDs(i%4, 400), 40
		}
		return r
	}
	o := engine.Options{KVStartTokens: 512, MaxSequences: 1, ChunkTokens: 256, ContextTokens: 640,
		NoPrefixCache: true}
	src := tinySource(t, "qwen3")
	alone := openModel(t, src, o)
	o.MaxSequences, o.NoPrefixCache = 5, false
	o.AvailableBytes = 1 // the minimum: start pages and other pages for one sequence
	d, err := engine.Describe(src, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, starts := range []int64{1, 5} {
		// Pages get half of the free memory, and start pages a quarter of that half.
		o.AvailableBytes = d.Need.TotalBytes() + 8*starts*512*d.KVStartBytesPerToken
		together := openModel(t, src, o)
		pages := together.Info().Need
		if n := (pages.KVBytes + pages.GrowthBytes - 128*d.KVBytesPerToken) / (512 *
			d.KVStartBytesPerToken); n < starts || n > starts+1 {
			t.Fatalf("start pages for %d sequences, expected about %d", n, starts)
		}
		var streams []*engine.Stream
		for i := range 7 {
			streams = append(streams, submit(t, together, request(i)))
		}
		for i, s := range streams {
			want, _, _ := answer(t, submit(t, alone, request(i)))
			if got, _, _ := answer(t, s); !slices.Equal(got, want) {
				t.Errorf("%d starts, request %d: got %v, alone %v", starts, i, got, want)
			}
		}
		idle(t, together)
		if n := together.Stats().Preemptions; (n > 0) != (starts > 1) {
			// With start pages for one sequence, requests run one after the other.
			t.Errorf("%d starts: %d preemptions, expected some only with several starts", starts, n)
		}
	}
}
