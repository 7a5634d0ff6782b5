package models_test

// These tests measure how each format of recurrent states affects the quality of the bundled model.
// They also check that in every format, results do not depend on chunks, batches or snapshots.
// cache/FORMATS.md has the table that TestStateFormats logs.

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"headroom/engine/cache"
	"headroom/engine/tokenizer"
	"headroom/kernels"
)

// stateFormats lists the formats to measure, with two bounds, which are measured values rounded up.
var stateFormats = []struct {
	name   string
	within float64 // maximum relative difference of the loss from the reference
	// divergence is the maximum of the mean Kullback-Leibler divergence, in nats, between the
	// next-token distributions with this format and with float32 states.
	divergence float64
}{{"f32", 0.001, 0}, {"bf16", 0.002, 1e-7}, {"int8", 0.002, 1e-6}}

func parseState(t *testing.T, name string) cache.StateFormat {
	t.Helper()
	f, err := cache.ParseStateFormat(name)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// stateRow returns the first columns of a row in FORMATS.md, which need no measurement.
func stateRow(name string, f cache.StateFormat, layers []cache.LayerSpec) string {
	return fmt.Sprintf("| `--state-format %s` | %d |", name, cache.SlotBytes(layers, f))
}

// TestStateFormats measures loss and recall of every format. It uses float32 activations and a
// float32 KV cache, so that only the state differs from the reference. With -v it logs the rows of
// the table in FORMATS.md. The short form measures only some of the conversations, with int8.
func TestStateFormats(t *testing.T) {
	if testing.Short() {
		t.Skip("the loss of short conversations varies by more than the bounds")
	}
	texts, cases := demoTexts(t, unlessLong(7)), readJSON[[]demoCase](t, "demo_cases.json")
	plain, _ := newDemo(t, true)
	for _, f := range stateFormats {
		if f.name != "int8" && !long() {
			continue
		}
		state := parseState(t, f.name)
		r, tok := newDemoWithState(t, true, cache.Plain(kernels.F32), state)
		t.Run(f.name, func(t *testing.T) {
			got, want := r.loss(texts)
			kl, rows, equal := 0.0, 0, 0
			for i, c := range texts {
				if part := c.IDs[:min(len(c.IDs), demoChunk)]; i < 10 {
					more, same := divergence(r.all(part), plain.all(part))
					kl, rows, equal = kl+more, rows+len(part), equal+same
				}
			}
			if !(kl/float64(rows) <= f.divergence) {
				t.Errorf(
					"divergence from float32 states is %.2g nats per token, expected at most %.2g",
					kl/float64(rows), f.divergence)
			}
			if !(math.Abs(got/want-1) <= f.within) {
				t.Errorf("loss %.4f, reference %.4f, off by %.3f %%, expected within %.1f %%", got,
					want, 100*(got/want-1), 100*f.within)
			}
			right, tried := 0, 0
			for i, c := range cases {
				if !mustRecall(i, c) {
					continue
				}
				ids := tok.Encode(c.Prompt, tokenizer.EncodeOptions{})
				tried++
				if answer := r.greedy(r.last(ids), len(ids), len(c.GreedyIDs)); slices.Equal(answer,
					c.GreedyIDs) {
					right++
				} else {
					t.Errorf("case %d (%d tokens): greedy %q, transformers has %q", i, len(ids),
						tok.Decode(answer, false), tok.Decode(c.GreedyIDs, false))
				}
			}
			holdRow(t, stateRow(f.name, state, r.specs), "%+.4f %%", 100*(got/want-1),
				fmt.Sprintf("| %d | %.1g nats | %d of %d | %d of %d |", len(texts),
					kl/float64(rows), equal, rows, right, tried))
		})
	}
}

// all returns the logits after each of ids. There must be at most demoChunk ids.
func (r *demoRig) all(ids []int32) (all [][]float32) {
	rows := make([]int32, len(ids))
	for i := range rows {
		rows[i] = int32(i)
	}
	flat := r.step(ids, 0, rows)
	for i := range ids {
		all = append(all, flat[i*r.VocabSize():(i+1)*r.VocabSize()])
	}
	return all
}

// divergence returns the summed Kullback-Leibler divergence of the rows of logits a from those of
// b, and the number of rows with the same best token.
func divergence(a, b [][]float32) (kl float64, same int) {
	logTotal := func(row []float32) float64 {
		best, total := slices.Max(row), 0.0
		for _, x := range row {
			total += math.Exp(float64(x - best))
		}
		return float64(best) + math.Log(total)
	}
	for i := range b {
		totalA, totalB := logTotal(a[i]), logTotal(b[i])
		for v := range b[i] {
			logA, logB := float64(a[i][v])-totalA, float64(b[i][v])-totalB
			kl += math.Exp(logB) * (logB - logA)
		}
		bestA, _ := argmax(a[i])
		if bestB, _ := argmax(b[i]); bestA == bestB {
			same++
		}
	}
	return kl, same
}

// TestSameBitsInEveryStateFormat checks the exactness rule for rounded states. A state is rounded
// after every token, so the bits would change if a chunk rounded once more or once less. The last
// check resumes from a snapshot after another sequence has used the slot.
func TestSameBitsInEveryStateFormat(t *testing.T) {
	for _, name := range architectures {
		if !recurs(layersOf(t, name)) {
			continue
		}
		ids := readExpected(t, name)[4].IDs[:200]
		plain := newTiny(t, cpuDevice(t, 2), name).score(ids, len(ids))
		for _, format := range []string{"bf16", "int8"} {
			t.Run(name+" "+format, func(t *testing.T) {
				state := parseState(t, format)
				r := newTinyWithState(t, cpuDevice(t, 2), name, state)
				whole := r.score(ids, len(ids))
				if equalBits(whole, plain) {
					t.Error("the logits equal those with float32 states: nothing was rounded")
				}
				for _, chunk := range []int{1, 2, 7, 64, 199} {
					if got := r.score(ids, chunk); !equalBits(got, whole) {
						t.Errorf("computing the prompt in chunks of %d changes the logits", chunk)
					}
				}
				if got := r.scoreTogether(ids, ids[:50]); !equalBits(got, whole) {
					t.Error("another sequence in the batch changes the logits")
				}
				if got := newTinyWithState(t, cpuDevice(t, 3), name, state).score(ids,
					64); !equalBits(got, whole) {
					t.Error("the number of threads changes the logits")
				}
				r.score(ids[:111], 64)
				r.CopyState(0, 1)
				r.step(ids[50:90], kernels.Span{Rows: 40, Pages: r.pages[1]})
				r.CopyState(1, 0)
				got := r.step(ids[111:], kernels.Span{Rows: 89, Pos: 111, Pages: r.pages[0]})
				if !equalBits(got, whole[111:]) {
					t.Error("resuming from a snapshot changes the logits")
				}
			})
		}
	}
}

// TestDemoSameBitsInEveryStateFormat checks that chunks do not change the logits of the bundled
// model. It uses the default KV cache and the default activations.
func TestDemoSameBitsInEveryStateFormat(t *testing.T) {
	text := readJSON[[]demoCase](t, "demo_cases.json")[0].Prompt
	for _, f := range stateFormats {
		r, tok := newDemoWithState(t, false, cache.Default(), parseState(t, f.name))
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
				t.Errorf("%s: computing the prompt in chunks of %d changes the logits", f.name,
					chunk)
			}
		}
	}
}
