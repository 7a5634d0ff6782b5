package models_test

// What each format of keys and values costs the bundled model: loss against transformers with a float32 cache, and whether it
// still finds what it read. cache/FORMATS.md has the numbers.

import (
	"math"
	"os"
	"slices"
	"testing"
	"time"

	"headroom/engine/cache"
	"headroom/engine/tokenizer"
)

// kvFormats are the formats to try, and by how much the loss may differ. The bounds other than the default's and K8 V8's are measured
// and rounded up, to notice a format that breaks. Of brief formats only a part is tried, unless HEADROOM_LONG is set.
var kvFormats = []struct {
	options cache.FormatOptions
	within  float64 // of the loss
	brief   bool
	recalls bool // must find what it read: 4 bits or more
}{
	{cache.FormatOptions{Name: "f16"}, 0.001, true, true},
	{cache.FormatOptions{Name: "bf16"}, 0.002, true, true},
	{cache.FormatOptions{Name: "affine"}, 0.01, false, true},
	{cache.FormatOptions{Bits: "(8, 4)", BoundaryLayers: -1}, 0.01, true, true},
	{cache.FormatOptions{Bits: "8", GroupSize: "64"}, 0.002, true, true},
	{cache.FormatOptions{Bits: "6"}, 0.005, true, true},
	{cache.FormatOptions{Bits: "5"}, 0.01, true, true},
	{cache.FormatOptions{Bits: "4", BoundaryLayers: -1}, 0.02, true, true},
	{cache.FormatOptions{Bits: "(3, 3)"}, 0.05, true, false},
	{cache.FormatOptions{Bits: "(4, 2)"}, 0.05, true, false},
	{cache.FormatOptions{Bits: "2"}, 0.3, true, false},
	{cache.FormatOptions{Name: "q8_0"}, 0.002, true, true},
	{cache.FormatOptions{Name: "q4_0"}, 0.02, true, true},
}

// TestKVFormats measures loss and recall of every format, with exact activations so that only the cache differs.
func TestKVFormats(t *testing.T) {
	type conversation struct {
		IDs []int32 `json:"ids"`
		NLL float64 `json:"nll_all"`
	}
	long := os.Getenv("HEADROOM_LONG") != ""
	conversations, cases := readJSON[[]conversation](t, "demo_nll.json"), readJSON[[]demoCase](t, "demo_cases.json")
	for _, f := range kvFormats {
		kv, err := cache.ParseFormat(f.options)
		if err != nil {
			t.Fatal(err)
		}
		r, tok := newDemoWith(t, true, kv)
		name, bytes := kv.Describe(r.specs), cache.PageBytes(r.specs, kv)/cache.PageTokens
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			var got, want float64
			counted := 0
			for _, c := range conversations {
				if len(c.IDs) > longestCase() {
					continue
				}
				if counted++; f.brief && !long && counted%8 != 1 {
					continue
				}
				got += r.nll(c.IDs)
				want += c.NLL
			}
			if !(math.Abs(got/want-1) <= f.within) {
				t.Errorf("loss %.4f, reference %.4f, expected within %.1f %%", got, want, 100*f.within)
			}
			right, tried := 0, 0
			for i, c := range cases {
				if c.PromptLen > longestCase() || !long && c.PromptLen > 2000 || c.SmallestGap <= decidedGap {
					continue
				}
				if f.brief && !long && (c.PromptLen < 1800 || i%2 != 0) { // two of those that must recall 1,800 tokens
					continue
				}
				ids := tok.Encode(c.Prompt, tokenizer.EncodeOptions{})
				tried++
				if answer := r.goOn(r.last(ids), len(ids), len(c.GreedyIDs)); slices.Equal(answer, c.GreedyIDs) {
					right++
				} else if f.recalls {
					t.Errorf("case %d (%d tokens): greedy %q, transformers has %q", i, len(ids), tok.Decode(answer, false), tok.Decode(c.GreedyIDs, false))
				}
			}
			t.Logf("%s: %d bytes a token, loss %+.3f %%, %d of %d answers right, %.1f s", name, bytes, 100*(got/want-1), right, tried, time.Since(start).Seconds())
		})
	}
}

// TestIntegerAttentionLoss: what a format costs as people run it, with activations of 8 bits and attention in integers, against a float16
// cache and the same activations. Bounds are measured, over all 40 conversations and over the part that is read here, with room for a smaller part.
func TestIntegerAttentionLoss(t *testing.T) {
	if testing.Short() {
		t.Skip("short conversations scatter more than the bounds")
	}
	type conversation struct {
		IDs []int32 `json:"ids"`
	}
	conversations := readJSON[[]conversation](t, "demo_nll.json")
	every := 4
	if os.Getenv("HEADROOM_LONG") != "" {
		every = 1
	}
	loss := func(o cache.FormatOptions) (sum float64) {
		kv, err := cache.ParseFormat(o)
		if err != nil {
			t.Fatal(err)
		}
		r, _ := newDemoWith(t, false, kv)
		for i, c := range conversations {
			if len(c.IDs) <= longestCase() && i%every == min(1, every-1) {
				sum += r.nll(c.IDs)
			}
		}
		return sum
	}
	f16 := loss(cache.FormatOptions{Name: "f16"})
	if f16 == 0 {
		t.Skip("no conversation is short enough")
	}
	for _, f := range []struct {
		options cache.FormatOptions
		within  float64
	}{
		{cache.FormatOptions{}, 0.0005},
		{cache.FormatOptions{StartTokens: 512}, 0.0005},
		{cache.FormatOptions{Name: "q8_0"}, 0.0005},
		{cache.FormatOptions{Bits: "4", BoundaryLayers: -1}, 0.006},
		{cache.FormatOptions{Name: "q4_0"}, 0.006},
	} {
		got := loss(f.options)
		t.Logf("%+v: loss %+.4f %%", f.options, 100*(got/f16-1))
		if !(math.Abs(got/f16-1) <= f.within) {
			t.Errorf("%+v: loss %.4f, with float16 %.4f, expected within %.3f %%", f.options, got, f16, 100*f.within)
		}
	}
}
