package models_test

// These tests measure how each KV cache format affects the quality of the bundled model: its loss,
// compared with transformers and a float32 cache, and its recall of facts in the prompt.
// cache/FORMATS.md has the table that TestKVFormats logs.

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"headroom/engine/cache"
	"headroom/engine/tokenizer"
	"headroom/kernels"
	"headroom/kernels/cpu"
)

// kvFormats lists the formats to measure. The bounds of the default format and of K8 V8 were set in
// advance. The others are measured values, rounded up, and detect a format that breaks. Rare
// formats run only in the long form, because the tests of kernels/attention cover them too.
var kvFormats = []struct {
	options cache.FormatOptions
	within  float64 // maximum relative difference of the loss
	rare    bool
	recalls bool // the answers must be correct; true for formats with 4 bits or more
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

// kvFlags returns the command line flags of a format.
func kvFlags(o cache.FormatOptions) string {
	var flags []string
	for _, f := range [][2]string{{"--kv-format", o.Name}, {"--kv-bits", o.Bits},
		{"--kv-group-size", o.GroupSize}} {
		if f[1] != "" {
			flags = append(flags, f[0]+" "+strings.ReplaceAll(strings.Trim(f[1], "()"), " ", ""))
		}
	}
	if o.BoundaryLayers < 0 {
		flags = append(flags, "--kv-boundary-layers 0")
	}
	return strings.Join(flags, " ")
}

// kvRow returns the first columns of a row in FORMATS.md. They need no measurement; the next column
// is the loss.
func kvRow(o cache.FormatOptions, f cache.Format, layers []cache.LayerSpec) string {
	bytes := cache.PageBytes(layers, f) / cache.PageTokens
	f16 := cache.PageBytes(layers, cache.Plain(kernels.F16)) / cache.PageTokens
	return fmt.Sprintf("| `%s` | %s | %d | %.0f %% |", kvFlags(o), f.Describe(layers), bytes,
		100*float64(bytes)/float64(f16))
}

// holdRow logs a row of FORMATS.md: its first columns, a loss in percent and the last columns. In
// the long form it compares them with the document. The loss may differ by a hundredth of a percent
// point and a twentieth of itself, because the instruction sets of processors round differently.
func holdRow(t *testing.T, first, format string, loss float64, last string) {
	t.Helper()
	t.Logf("%s "+format+" %s", first, loss, last)
	if !long() {
		return
	}
	text, err := os.ReadFile("../cache/FORMATS.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		rest, found := strings.CutPrefix(strings.TrimSpace(line), first)
		if !found {
			continue
		}
		written, end, _ := strings.Cut(rest, " % ")
		w, err := strconv.ParseFloat(strings.TrimSpace(written), 64)
		if err != nil || !(math.Abs(loss-w) <= 0.01+0.05*math.Abs(w)) || end != last {
			t.Errorf("cache/FORMATS.md has the row %q, measured "+format+" %s", line, loss, last)
		}
		return
	}
	t.Errorf("cache/FORMATS.md lacks the row %q", first)
}

// TestFormatsTables compares the sizes in cache/FORMATS.md with those of the bundled model.
func TestFormatsTables(t *testing.T) {
	text, err := os.ReadFile("../cache/FORMATS.md")
	if err != nil {
		t.Fatal(err)
	}
	r, _ := newDemo(t, true)
	expect := func(row string) {
		if !strings.Contains(string(text), "\n"+row) {
			t.Errorf("cache/FORMATS.md lacks the row %q", row)
		}
	}
	for _, f := range kvFormats {
		kv, err := cache.ParseFormat(f.options)
		if err != nil {
			t.Fatal(err)
		}
		expect(kvRow(f.options, kv, r.specs))
	}
	for _, f := range stateFormats {
		expect(stateRow(f.name, parseState(t, f.name), r.specs))
	}
}

// mustRecall reports whether a case is run with every format. Its answer depends on text at the
// start of the prompt. In the long form these are the cases of 1,800, 5,800 and 18,000 tokens, and
// otherwise two of 1,800.
func mustRecall(i int, c demoCase) bool {
	if c.PromptLen <= 1_800 || c.SmallestGap <= decidedGap {
		return false
	}
	return long() || c.PromptLen <= min(2_000, longestCase()) && i%2 == 0
}

// TestKVFormats measures loss and recall of every format. It uses float32 activations, so that only
// the cache differs from the reference. With -v it logs the rows of the table in FORMATS.md.
func TestKVFormats(t *testing.T) {
	const part = 7 // measure every 7th conversation
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
		t.Run(kv.Describe(r.specs), func(t *testing.T) {
			got, want := r.loss(texts)
			if !(math.Abs(got/want-1) <= f.within) {
				t.Errorf("loss %.4f, reference %.4f, expected within %.1f %%", got, want,
					100*f.within)
			}
			right, tried := 0, 0
			for i, c := range cases {
				// In the long form, the default format must answer every case.
				all := long() && f.options.Name == "affine"
				if !mustRecall(i, c) && !(all && c.SmallestGap > decidedGap) {
					continue
				}
				ids := tok.Encode(c.Prompt, tokenizer.EncodeOptions{})
				tried++
				if answer := r.greedy(r.last(ids), len(ids), len(c.GreedyIDs)); slices.Equal(answer,
					c.GreedyIDs) {
					right++
				} else if f.recalls {
					t.Errorf("case %d (%d tokens): greedy %q, transformers has %q", i, len(ids),
						tok.Decode(answer, false), tok.Decode(c.GreedyIDs, false))
				}
			}
			holdRow(t, kvRow(f.options, kv, r.specs), "%+.3f %%", 100*(got/want-1),
				fmt.Sprintf("| %d | %d of %d |", len(texts), right, tried))
		})
	}
}

// TestIntegerAttentionLoss compares the loss of some formats with that of a float16 cache. All of
// them run with 8-bit activations, the default, for which attention is computed in integers. The
// bounds hold both for all conversations and for those of the short form.
func TestIntegerAttentionLoss(t *testing.T) {
	if testing.Short() || cpu.Best() == cpu.Generic {
		t.Skip("the loss of short conversations varies by more than the bounds")
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
