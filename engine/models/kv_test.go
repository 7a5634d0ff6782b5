package models_test

// What each format of keys and values costs the bundled model: loss against transformers with a
// float32 cache, and whether it still finds what it read. cache/FORMATS.md has the numbers.

import (
	"math"
	"slices"
	"testing"
	"time"

	"headroom/engine/cache"
	"headroom/engine/tokenizer"
	"headroom/kernels/cpu"
)

// kvFormats are the formats to try, and by how much the loss may differ. The bounds other than the
// default's and K8 V8's are measured and rounded up, to notice a format that breaks. Rare formats
// are tried in the long form alone: what they compute is compared with the reference by
// kernels/attention.
var kvFormats = []struct {
	options cache.FormatOptions
	within  float64 // of the loss
	rare    bool
	recalls bool // must find what it read: 4 bits or more
}{
	{cache.FormatOptions{Name: "f16"}, 0.001, false, true},
	{cache.FormatOptions{Name: "bf16"}, 0.002, true, true},
	{cache.FormatOptions{Name: "affine"}, 0.01, false, true},
	{cache.FormatOptions{Bits: "(8, 4)", BoundaryLayers: -1}, 0.01, true, true},
	{cache.FormatOptions{Bits: "8", GroupSize: "64"}, 0.002, true, true},
	{cache.FormatOptions{Bits: "6"}, 0.005, true, true},
	{cache.FormatOptions{Bits: "5"}, 0.01, true, true},
	{cache.FormatOptions{Bits: "4", BoundaryLayers: -1}, 0.02, false, true},
	{cache.FormatOptions{Bits: "(3, 3)"}, 0.05, true, false},
	{cache.FormatOptions{Bits: "(4, 2)"}, 0.05, true, false},
	{cache.FormatOptions{Bits: "2"}, 0.3, true, false},
	{cache.FormatOptions{Name: "q8_0"}, 0.002, false, true},
	{cache.FormatOptions{Name: "q4_0"}, 0.02, false, true},
}

// mustRecall tells the cases that formats are tried on: two that are answered by what stands 1,800
// tokens before.
func mustRecall(i int, c demoCase) bool {
	return c.PromptLen > 1_800 && c.PromptLen <= min(2_000, longestCase()) && i%2 == 0 &&
		c.SmallestGap > decidedGap
}

// TestKVFormats measures loss and recall of every format, with exact activations so that only the
// cache differs.
func TestKVFormats(t *testing.T) {
	const part = 7 // of the conversations one in so many
	cases := readJSON[[]demoCase](t, "demo_cases.json")
	for _, f := range kvFormats {
		texts := demoTexts(t, part)
		if f.rare && !long() {
			continue
		} else if !f.rare {
			texts = demoTexts(t, unlessLong(part))
		}
		kv, err := cache.ParseFormat(f.options)
		if err != nil {
			t.Fatal(err)
		}
		r, tok := newDemoWith(t, true, kv)
		name, bytes := kv.Describe(r.specs), cache.PageBytes(r.specs, kv)/cache.PageTokens
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			got, want := r.loss(texts)
			if !(math.Abs(got/want-1) <= f.within) {
				t.Errorf("loss %.4f, reference %.4f, expected within %.1f %%", got, want,
					100*f.within)
			}
			right, tried := 0, 0
			for i, c := range cases {
				// the default is tried on what people have
				all := long() && f.options.Name == "affine"
				if !mustRecall(i, c) && !(all && c.SmallestGap > decidedGap) {
					continue
				}
				ids := tok.Encode(c.Prompt, tokenizer.EncodeOptions{})
				tried++
				if answer := r.goOn(r.last(ids), len(ids), len(c.GreedyIDs)); slices.Equal(answer,
					c.GreedyIDs) {
					right++
				} else if f.recalls {
					t.Errorf("case %d (%d tokens): greedy %q, transformers has %q", i, len(ids),
						tok.Decode(answer, false), tok.Decode(c.GreedyIDs, false))
				}
			}
			t.Logf("%s: %d bytes a token, loss %+.3f %%, %d of %d answers right, %.1f s", name,
				bytes, 100*(got/want-1), right, tried, time.Since(start).Seconds())
		})
	}
}

// TestIntegerAttentionLoss: what a format costs as people run it, with activations of 8 bits and
// attention in integers, against a float16 cache and the same activations. Bounds are measured,
// over all 40 conversations and over the part that is read here, with room for a smaller part.
func TestIntegerAttentionLoss(t *testing.T) {
	if testing.Short() || cpu.Best() == cpu.Generic {
		t.Skip("short conversations scatter more than the bounds")
	}
	texts := demoTexts(t, unlessLong(7))
	loss := func(o cache.FormatOptions) (sum float64) {
		kv, err := cache.ParseFormat(o)
		if err != nil {
			t.Fatal(err)
		}
		r, _ := newDemoWith(t, false, kv)
		sum, _ = r.loss(texts)
		return sum
	}
	f16 := loss(cache.FormatOptions{Name: "f16"})
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
			t.Errorf("%+v: loss %.4f, with float16 %.4f, expected within %.3f %%", f.options, got,
				f16, 100*f.within)
		}
	}
}
