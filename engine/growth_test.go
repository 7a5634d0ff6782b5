package engine_test

import (
	"slices"
	"testing"

	"headroom/engine"
)

// TestGrowth: at rest a model takes no pages and no slots. Its caches grow as conversations are
// computed. If they may not grow beyond what is needed, cached conversations go instead, and the
// answers stay the same.
func TestGrowth(t *testing.T) {
	for _, name := range []string{"qwen3", "qwen3_5_text"} {
		src := tinySource(t, name)
		o := engine.Options{ContextTokens: 256, MaxSequences: 2, ChunkTokens: 64, KVFormat: "f16"}
		free, bound := openModel(t, src, o), openModel(t, src, o)
		need := free.Info().Need
		if s := free.Stats(); s.KVBytes != 0 || s.StateBytes != 0 || need.GrowthBytes == 0 ||
			s.ReservedBytes != need.KVBytes+need.StateBytes || s.GrowthBytes != need.GrowthBytes {
			t.Errorf("%s: at rest %+v, needed are %+v", name, s, need)
		}
		bound.SetGrowth(engine.Growth{})
		last := engine.Stats{}
		for i := range 12 {
			r := engine.Request{Prompt: someIDs(i, 200), MaxTokens: 8, IgnoreEOS: true}
			want, _, _ := answer(t, submit(t, free, r))
			if got, _, _ := answer(t, submit(t, bound, r)); !slices.Equal(got, want) {
				t.Errorf("%s, request %d: got %v, without a limit %v", name, i, got, want)
			}
			idle(t, free)
			idle(t, bound)
			s, b := free.Stats(), bound.Stats()
			if s.KVBytes < last.KVBytes || s.StateBytes < last.StateBytes || i == 1 &&
				s.KVBytes <= last.KVBytes {
				t.Errorf("%s, request %d: %+v after %+v", name, i, s, last)
			}
			if most := need.KVBytes + need.StateBytes; b.KVBytes > need.KVBytes ||
				b.KVBytes+b.StateBytes > most {
				t.Errorf("%s, request %d: %d bytes of pages and %d of states, needed are %d and %d",
					name, i, b.KVBytes, b.StateBytes, need.KVBytes, need.StateBytes)
			}
			last = s
		}
		if last.KVBytes <= need.KVBytes || last.ReservedBytes > need.StateBytes {
			t.Errorf("%s: without a limit %+v, needed are %+v", name, last, need)
		}
		// What is allowed to grow grows.
		bound.SetGrowth(engine.Growth{CacheBytes: 1 << 40})
		for i := range 12 {
			answer(t, submit(t, bound, engine.Request{Prompt: someIDs(i, 200), MaxTokens: 8,
				IgnoreEOS: true}))
		}
		idle(t, bound)
		if b := bound.Stats(); b.KVBytes != last.KVBytes {
			t.Errorf("%s: %d bytes of pages once they may grow, expected %d", name, b.KVBytes,
				last.KVBytes)
		}
	}
}
