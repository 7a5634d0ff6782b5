package models_test

// Compares models with a window in small rings, whose pages are reused several times during a
// prompt, with the same models in rings so large that no page is reused. Every row of logits must
// have the same bits.

import (
	"fmt"
	"slices"
	"testing"

	"headroom/engine/batch"
	"headroom/engine/cache"
	"headroom/engine/runner"
	"headroom/kernels"
	"headroom/kernels/cpu"
)

// ringRows is the longest pass of the small rings. Gemma's have 16 + 40 - 1 positions in 2 pages.
// Those of 48 tokens have a page of sinks, and 44 + 40 - 1 positions in 3 pages.
const ringRows = 40

var ringed = []struct {
	model       string
	maxKVTokens int
}{{"gemma3_text", 0}, {"gemma3_text", 48}, {"qwen3", 48}, {"qwen3_5_text", 48}}

// eachRing runs test on every model with a window, in several formats. small returns a new model
// with small rings. ids is a prompt, and want its logits from one pass in large rings.
func eachRing(t *testing.T,
	test func(t *testing.T, small func() *rig, ids []int32, want [][]float32)) {
	formats := []cache.FormatOptions{{}, {Name: "f16"}, {Name: "q4_0"}}
	if cpu.Best() == cpu.Generic { // the plain Go kernels need seconds for each
		formats = formats[:1]
	}
	for _, c := range ringed {
		for _, name := range formats {
			kv, err := cache.ParseFormat(name)
			if err != nil {
				t.Fatal(err)
			}
			t.Run(fmt.Sprintf("%s %d %s", c.model, c.maxKVTokens, name.Name), func(t *testing.T) {
				o := runner.Options{KV: kv, MaxKVTokens: c.maxKVTokens, Slots: 3,
					BatchRows: rigRows}
				ids := readExpected(t, c.model)[4].IDs[:260]
				want := newTinyWith(t, cpuDevice(t, 2), c.model, o).score(ids, len(ids))
				o.BatchRows = ringRows
				test(t, func() *rig { return newTinyWith(t, cpuDevice(t, 2), c.model, o) }, ids,
					want)
			})
		}
	}
}

// TestRingsAreReused reads a prompt in chunks, and in a batch with another sequence.
func TestRingsAreReused(t *testing.T) {
	eachRing(t, func(t *testing.T, small func() *rig, ids []int32, want [][]float32) {
		r := small()
		for _, chunk := range []int{1, 7, 32, ringRows} {
			if got := r.score(ids, chunk); !equalBits(got, want) {
				t.Errorf("reading the prompt in chunks of %d changes the logits", chunk)
			}
		}
		// The other sequence is three tokens behind.
		for from := 0; from < len(ids); from += 25 {
			to, other := min(from+25, len(ids)), max(0, from-3)
			rows := append(slices.Clone(ids[other:min(other+9, len(ids))]), ids[from:to]...)
			n := len(rows) - (to - from)
			got := r.step(rows, kernels.Span{Rows: n, Pos: other, Pages: r.pages[1], Slot: 2},
				kernels.Span{Row: n, Rows: to - from, Pos: from, Pages: r.pages[0]})
			if !equalBits(got[n:], want[from:to]) {
				t.Fatalf("positions %d to %d: another sequence in the batch changes the logits",
					from, to)
			}
		}
	})
}

// TestRingSnapshots takes snapshots inside the passes that read a prompt. A sequence that resumes
// from a snapshot in another slot must have the same bits as a sequence that read the whole prompt,
// regardless of the tokens that the first sequence read after the snapshot.
func TestRingSnapshots(t *testing.T) {
	eachRing(t, func(t *testing.T, small func() *rig, ids []int32, want [][]float32) {
		const end = 200
		for _, at := range []int{1, 15, 39, 100, 120, 121, 159, 199, end} {
			r := small()
			for from := 0; from < end; from += ringRows {
				to := from + ringRows
				spans := []kernels.Span{{Rows: to - from, Pos: from, Pages: r.pages[0]}}
				var rounds []batch.Round
				if from < at && at <= to {
					head, tail := spans[0], spans[0]
					head.Rows = at - from
					tail.Row, tail.Rows, tail.Pos = head.Rows, to-at, at
					rounds = []batch.Round{{Spans: []kernels.Span{head},
						Keeps: []batch.Keep{{From: 0, To: 1}}}}
					if tail.Rows > 0 {
						rounds = append(rounds, batch.Round{Spans: []kernels.Span{tail}})
					}
				}
				tokens := slices.Clone(ids[from:to])
				for i := range tokens { // different tokens after the snapshot
					if from+i >= at {
						tokens[i] = 7
					}
				}
				if _, err := r.Step(tokens, spans, nil, rounds...); err != nil {
					t.Fatal(err)
				}
			}
			r.CopyState(1, 2)
			for from := at; from < len(ids); from += 33 {
				to := min(from+33, len(ids))
				if got := r.step(ids[from:to],
					kernels.Span{Rows: to - from, Pos: from, Pages: r.pages[0],
						Slot: 2}); !equalBits(got, want[from:to]) {
					t.Fatalf("snapshot at %d: the logits of positions %d to %d differ", at, from,
						to)
				}
			}
		}
	})
}

// TestLimitChangesNothingUntilItIsReached checks that a limit of 48 changes only the logits after
// the first 48 positions.
func TestLimitChangesNothingUntilItIsReached(t *testing.T) {
	for _, name := range []string{"qwen3", "gemma3_text"} {
		ids := readExpected(t, name)[4].IDs[:120]
		o := runner.Options{KV: cache.Plain(kernels.F32), Slots: 1, BatchRows: 120}
		all := newTinyWith(t, cpuDevice(t, 2), name, o).score(ids, len(ids))
		o.MaxKVTokens = 48
		limited := newTinyWith(t, cpuDevice(t, 2), name, o).score(ids, len(ids))
		for i := range ids {
			// The order of the sums is different: the sinks are a separate segment.
			if close := closeTo(all[i], limited[i]); close != (i < 48) {
				t.Errorf("%s: row %d is as without a limit: %t, expected %t", name, i, close,
					i < 48)
				break
			}
		}
	}
}

// closeTo reports whether logits differ only by rounding.
func closeTo(a, b []float32) bool {
	for i := range a {
		if d := a[i] - b[i]; !(-1e-4 < d && d < 1e-4) {
			return false
		}
	}
	return true
}
