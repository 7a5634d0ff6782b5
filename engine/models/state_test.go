package models_test

// What each form of recurrent states costs the bundled model, and that none of them lets a result depend on how it was computed.
// cache/FORMATS.md has the numbers.

import (
	"math"
	"os"
	"slices"
	"testing"
	"time"

	"headroom/engine/cache"
	"headroom/engine/tokenizer"
	"headroom/kernels"
)

// stateFormats are the forms to try and by how much the loss may differ from the reference's, float32's being the engine's own.
var stateFormats = []struct {
	name   string
	within float64
}{{"f32", 0.001}, {"bf16", 0.002}, {"int8", 0.01}}

func parseState(t *testing.T, name string) cache.StateFormat {
	t.Helper()
	f, err := cache.ParseStateFormat(name)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestStateFormats measures loss and recall of every form, with exact activations and a float32 KV cache so that only the state
// differs. Unless HEADROOM_LONG is set a part is tried.
func TestStateFormats(t *testing.T) {
	type conversation struct {
		IDs []int32 `json:"ids"`
		NLL float64 `json:"nll_all"`
	}
	long := os.Getenv("HEADROOM_LONG") != ""
	conversations, cases := readJSON[[]conversation](t, "demo_nll.json"), readJSON[[]demoCase](t, "demo_cases.json")
	for _, f := range stateFormats {
		state := parseState(t, f.name)
		r, tok := newDemoKept(t, true, cache.Plain(kernels.F32), state)
		t.Run(f.name, func(t *testing.T) {
			start := time.Now()
			var got, want float64
			counted := 0
			for _, c := range conversations {
				if len(c.IDs) > longestCase() {
					continue
				}
				if counted++; !long && counted%4 != 1 {
					continue
				}
				got += r.nll(c.IDs)
				want += c.NLL
			}
			if !(math.Abs(got/want-1) <= f.within) {
				t.Errorf("loss %.4f, reference %.4f, off by %.3f %%, expected within %.1f %%", got, want, 100*(got/want-1), 100*f.within)
			}
			right, tried := 0, 0
			for i, c := range cases {
				if c.PromptLen > longestCase() || c.SmallestGap <= decidedGap || !long && (c.PromptLen > 2000 || i%2 != 0) {
					continue
				}
				ids := tok.Encode(c.Prompt, tokenizer.EncodeOptions{})
				tried++
				if answer := r.goOn(r.last(ids), len(ids), len(c.GreedyIDs)); slices.Equal(answer, c.GreedyIDs) {
					right++
				} else {
					t.Logf("case %d (%d tokens): greedy %q, transformers has %q", i, len(ids), tok.Decode(answer, false), tok.Decode(c.GreedyIDs, false))
				}
			}
			t.Logf("%s: %d bytes a sequence, loss %+.5f %%, %d of %d answers right, %.1f s", f.name, cache.SlotBytes(r.specs, state), 100*(got/want-1),
				right, tried, time.Since(start).Seconds())
		})
	}
}

// TestSameBitsInEveryStateFormat holds the exactness rule where it is hardest: a state is rounded with every token, so any cut that
// rounded once more or once less would show. The last check takes a state up again after another sequence has used its slot.
func TestSameBitsInEveryStateFormat(t *testing.T) {
	for _, name := range []string{"qwen3_5_text", "qwen3_5_moe_text"} {
		ids := readExpected(t, name)[4].IDs[:200]
		plain := newTiny(t, cpuDevice(t, 2), name).score(ids, len(ids))
		for _, format := range []string{"bf16", "int8"} {
			t.Run(name+" "+format, func(t *testing.T) {
				state := parseState(t, format)
				r := newTinyKept(t, cpuDevice(t, 2), name, state)
				whole := r.score(ids, len(ids))
				if equalBits(whole, plain) {
					t.Error("the same bits as with float32 states: nothing was rounded")
				}
				for _, chunk := range []int{1, 2, 7, 64, 199} {
					if got := r.score(ids, chunk); !equalBits(got, whole) {
						t.Errorf("chunks of %d give other bits", chunk)
					}
				}
				if got := r.scoreTogether(ids, ids[:50]); !equalBits(got, whole) {
					t.Error("another sequence in the batch changes the bits")
				}
				if got := newTinyKept(t, cpuDevice(t, 3), name, state).score(ids, 64); !equalBits(got, whole) {
					t.Error("the number of threads changes the bits")
				}
				r.score(ids[:111], 64)
				r.CopyState(0, 1)
				r.step(ids[50:90], kernels.Span{Rows: 40, Pages: r.pages[1]})
				r.CopyState(1, 0)
				got := r.step(ids[111:], kernels.Span{Rows: 89, Pos: 111, Pages: r.pages[0]})
				if !equalBits(got, whole[111:]) {
					t.Error("a state that was kept and taken up again gives other bits")
				}
			})
		}
	}
}

// TestDemoSameBitsInEveryStateFormat is the same for the bundled model with the KV cache and activations that users have.
func TestDemoSameBitsInEveryStateFormat(t *testing.T) {
	text := readJSON[[]demoCase](t, "demo_cases.json")[0].Prompt
	for _, f := range stateFormats {
		r, tok := newDemoKept(t, false, cache.Default(), parseState(t, f.name))
		ids := tok.Encode(text+text+text, tokenizer.EncodeOptions{})
		ids = ids[:min(len(ids), longestCase(), 150)]
		score := func(chunk int) (all [][]float32) {
			rows := make([]int32, chunk)
			for i := range rows {
				rows[i] = int32(i)
			}
			for from := 0; from < len(ids); from += chunk {
				part := ids[from:min(from+chunk, len(ids))]
				flat := r.step(part, from, rows[:len(part)])
				for i := range part {
					all = append(all, slices.Clone(flat[i*r.VocabSize():(i+1)*r.VocabSize()]))
				}
			}
			return all
		}
		whole := score(len(ids))
		for _, chunk := range []int{1, 5, 64} {
			if !equalBits(score(chunk), whole) {
				t.Errorf("%s: chunks of %d give other bits", f.name, chunk)
			}
		}
	}
}
