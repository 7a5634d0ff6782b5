package engine_test

// The distribution of tokens that are drawn at random while drafts are verified. Sampling at the
// rows of drafts has to draw as plain decoding does, whoever drafts.

import (
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"headroom/engine"
	"headroom/engine/sample"
)

const (
	drawnTokens = 3  // of an answer
	drawnFrom   = 2  // the likeliest tokens, so that there are 8 answers
	drawnHeat   = 12 // the temperature, which makes all of them frequent
)

// TestDraftedDistribution draws answers of three tokens from the two likeliest ones and counts
// each of the eight answers, 100,000 tokens for each way with HEADROOM_LONG. With 7 degrees of
// freedom, the chi-square statistic exceeds 24.3 for one sequence of seeds in a thousand.
func TestDraftedDistribution(t *testing.T) {
	tokens := 3_000
	switch {
	case testing.Short(): // under the race detector
		tokens = 600
	case long():
		tokens = 100_000
	}
	logTo(t, slog.NewTextHandler(io.Discard, nil))
	for _, w := range aheadWays {
		t.Run(w.name, func(t *testing.T) {
			m := aheadModels[slices.IndexFunc(aheadModels,
				func(m aheadModel) bool { return m.name == "quantized pages" })]
			probe := m.source(t)
			if w.needs != nil && !w.needs(t, m, &probe, &engine.Options{}) {
				m = aheadModels[slices.IndexFunc(aheadModels, func(m aheadModel) bool {
					return m.name == "gated delta rule, own block"
				})]
			}
			src, o := m.source(t), m.o
			o.ContextTokens, o.MaxSequences, o.KeptStates, o.QueueRequests = 256, 8, 40, 64
			plain := openModel(t, src, o)
			prompt := slices.Concat(someIDs(3, 30), someIDs(3, 30))
			want := expectedAnswers(t, plain, prompt, nil)
			p := &proposer{way: w, depth: drawnTokens - 1, vocab: 300,
				r: rand.New(rand.NewPCG(1, 9))}
			for cell := range want {
				p.others.Add("", slices.Concat(prompt, cell[:]), 0)
				p.prediction = slices.Concat(p.prediction, prompt[50:], cell[:])
			}
			o.Speculate, o.Draft = engine.SpeculateAuto, p.propose
			if w.needs != nil {
				w.needs(t, m, &src, &o)
			}
			ahead := openModel(t, src, o)
			ahead.FreeRows()
			if w.opened != nil {
				w.opened(ahead)
			}
			n := tokens / drawnTokens
			counts := drawAnswers(t, ahead, prompt, n)
			chi, all := 0.0, 0.0
			for cell, share := range want {
				expected := share * float64(n)
				d := float64(counts[cell]) - expected
				if chi, all = chi+d*d/expected, all+share; expected < 5 {
					t.Errorf("%v is expected %.1f times, too rarely", cell, expected)
				}
				delete(counts, cell)
			}
			s := ahead.Stats()
			t.Logf("chi-square %.1f, %d of %d drafts were right", chi, s.AcceptedTokens,
				s.DraftTokens)
			if chi > 24.3 || len(counts) > 0 || math.Abs(all-1) > 1e-6 {
				t.Errorf("chi-square %.1f, other answers %v", chi, counts)
			}
			if s.DraftTokens == 0 && !w.once {
				t.Error("there were no drafts")
			}
		})
	}
}

// answer3 is an answer of drawnTokens tokens.
type answer3 [drawnTokens]int32

// expectedAnswers returns the probability of each answer that begins with the given tokens, from
// the log-probabilities of plain decoding.
func expectedAnswers(t *testing.T, plain *engine.Engine, prompt,
	begun []int32) map[answer3]float64 {
	t.Helper()
	if len(begun) == drawnTokens {
		return map[answer3]float64{answer3(begun): 1}
	}
	first := hear(t, submit(t, plain, engine.Request{Prompt: slices.Concat(prompt, begun),
		MaxTokens: 1, IgnoreEOS: true, Sampling: sample.Params{Logprobs: drawnFrom}}), 0).tokens[0]
	var weights [drawnFrom]float64
	sum := 0.0
	for i := range weights {
		weights[i] = math.Exp(float64(first.Top[i].Logprob) / drawnHeat)
		sum += weights[i]
	}
	all := map[answer3]float64{}
	for i, w := range weights {
		next := append(slices.Clone(begun), first.Top[i].Token)
		for cell, share := range expectedAnswers(t, plain, prompt, next) {
			all[cell] = share * w / sum
		}
	}
	return all
}

// drawAnswers counts n answers with other seeds, many at once.
func drawAnswers(t *testing.T, e *engine.Engine, prompt []int32, n int) map[answer3]int {
	t.Helper()
	counts := map[answer3]int{}
	for from := 0; from < n; from += 48 {
		var streams []*engine.Stream
		for seed := from; seed < min(from+48, n); seed++ {
			streams = append(streams, submit(t, e, engine.Request{Prompt: prompt,
				MaxTokens: drawnTokens, IgnoreEOS: true,
				Sampling: sample.Params{Temperature: drawnHeat, TopK: drawnFrom,
					Seed: new(uint64(seed)), Logprobs: -1}}))
		}
		for _, s := range streams {
			tokens, _, _ := collect(t, s)
			counts[answer3(tokens)]++
		}
	}
	return counts
}
