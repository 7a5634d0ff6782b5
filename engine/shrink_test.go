package engine_test

import (
	"slices"
	"testing"

	"headroom/engine"
)

// TestShrink: a model returns the memory of its cached prefixes, the least recently used first. It
// computes them again with the same answers, and its caches grow again once they may. What a
// running request uses stays.
func TestShrink(t *testing.T) {
	for _, name := range []string{"qwen3", "qwen3_5_text"} {
		e := openModel(t, tinySource(t, name), engine.Options{ContextTokens: 256, MaxSequences: 2,
			ChunkTokens: 64, KVFormat: "f16"})
		r := func(i int) engine.Request {
			return engine.Request{Prompt: someIDs(i, 200), MaxTokens: 8, IgnoreEOS: true}
		}
		var want [4][]int32
		for i := range want {
			want[i], _, _ = answer(t, submit(t, e, r(i)))
		}
		full := e.Stats()
		half := e.Shrink(full.KVBytes / 2)
		s := e.Stats()
		if left := s.KVBytes + s.StateBytes; s.KVBytes == 0 || s.KVBytes > full.KVBytes/2 ||
			half != full.KVBytes+full.StateBytes-left {
			t.Errorf("%s: %d bytes were returned to keep half of %+v: %+v", name, half, full, s)
		}
		if _, _, cached := answer(t, submit(t, e, r(3))); cached == 0 {
			t.Errorf("%s: the prefix that was used last is gone", name)
		}
		if e.Shrink(0); e.Stats().KVBytes != 0 {
			t.Errorf("%s: keys and values are left: %+v", name, e.Stats())
		}
		for i := range want {
			got, _, cached := answer(t, submit(t, e, r(i)))
			if !slices.Equal(got, want[i]) || cached != 0 {
				t.Errorf("%s, request %d: got %v with %d cached tokens, want %v", name, i, got,
					cached, want[i])
			}
		}
		if s = e.Stats(); s.KVBytes > e.Info().Need.KVBytes {
			t.Errorf("%s: the caches grew before they were allowed to: %+v", name, s)
		}
		e.SetGrowth(engine.Growth{CacheBytes: 1 << 40})
		for i := range want {
			answer(t, submit(t, e, r(i)))
		}
		if s = e.Stats(); s.KVBytes != full.KVBytes {
			t.Errorf("%s: %d bytes of pages once they may grow, want %d", name, s.KVBytes,
				full.KVBytes)
		}
		running := submit(t, e, engine.Request{Prompt: someIDs(9, 100), MaxTokens: 100,
			IgnoreEOS: true})
		first, err := running.Next(t.Context())
		if err != nil || first.Err != nil {
			t.Fatal(err, first.Err)
		}
		e.Shrink(0)
		got, _, _ := answer(t, running)
		whole, _, _ := answer(t, submit(t, e, engine.Request{Prompt: someIDs(9, 100),
			MaxTokens: 100, IgnoreEOS: true}))
		if !slices.Equal(got, whole[len(whole)-len(got):]) {
			t.Errorf("%s: a request that ran meanwhile answers %v, want %v", name, got, whole)
		}
	}
}
