package models_test

// These tests run models with a window twice: in small rings, whose pages are reused several times
// during a prompt, and in rings so large that no page is reused. Every row of logits must have the
// same bits in both.

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

// ringRows is the longest pass with the small rings. Gemma's sliding-window layers have rings of 2
// pages for 16 + 40 - 1 positions. With a limit of 48 tokens, a ring has 1 page for the sinks and 3
// pages for 44 + 40 - 1 positions.
const ringRows = 40

// ringLimit is a limit of the tokens that an attention layer keeps, with which it has a ring.
const ringLimit = 48

// eachRing runs test for every architecture: with a limit, so that all attention layers have rings,
// and without one if it has windows. small returns a new rig with small rings. ids is a prompt, and
// want has its logits from one pass with large rings. The short form tests an architecture in one
// format of three by turns, and the long form in all.
func eachRing(t *testing.T,
	test func(t *testing.T, small func() *rig, ids []int32, want [][]float32)) {
	formats := []cache.FormatOptions{{}, {Name: "f16"}, {Name: "q4_0"}}
	for i, model := range architectures {
		limits := []int{ringLimit}
		if slides(layersOf(t, model)) {
			limits = []int{0, ringLimit}
		}
		for _, limit := range limits {
			for f, name := range formats {
				turn := i % len(formats)
				if cpu.Best() == cpu.Generic { // other formats take seconds
					turn = 0
				}
				if f != turn && (cpu.Best() == cpu.Generic || !long()) {
					continue
				}
				kv, err := cache.ParseFormat(name)
				if err != nil {
					t.Fatal(err)
				}
				t.Run(fmt.Sprintf("%s %d %s", model, limit, name.Name), func(t *testing.T) {
					o := runner.Options{KV: kv, MaxKVTokens: limit, Slots: 3, BatchRows: rigRows}
					ids := readExpected(t, model)[4].IDs[:260]
					want := newTinyWith(t, cpuDevice(t, 2), model, o).score(ids, len(ids))
					o.BatchRows = ringRows
					test(t, func() *rig { return newTinyWith(t, cpuDevice(t, 2), model, o) }, ids,
						want)
				})
			}
		}
	}
}

// TestRingsAreReused computes a prompt in chunks, and in a batch with another sequence.
func TestRingsAreReused(t *testing.T) {
	eachRing(t, func(t *testing.T, small func() *rig, ids []int32, want [][]float32) {
		r := small()
		for _, chunk := range []int{1, 7, 32, ringRows} {
			if got := r.score(ids, chunk); !equalBits(got, want) {
				t.Errorf("computing the prompt in chunks of %d changes the logits", chunk)
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

// TestRingSnapshots takes snapshots inside the passes that compute a prompt, and resumes from each
// of them in another slot. The logits must have the same bits as those of the whole prompt,
// whatever tokens the first sequence computed after the snapshot.
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
				for i := range tokens { // use other tokens after the snapshot
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

// TestLimitChangesNothingUntilItIsReached checks that a limit of 48 tokens changes only the logits
// after the first 48 positions. A model whose layers all have windows has no layer to limit.
func TestLimitChangesNothingUntilItIsReached(t *testing.T) {
	for _, name := range architectures {
		if !keepsAll(layersOf(t, name)) {
			continue
		}
		ids := readExpected(t, name)[4].IDs[:120]
		o := runner.Options{KV: cache.Plain(kernels.F32), Slots: 1, BatchRows: 120}
		all := newTinyWith(t, cpuDevice(t, 2), name, o).score(ids, len(ids))
		o.MaxKVTokens = ringLimit
		limited := newTinyWith(t, cpuDevice(t, 2), name, o).score(ids, len(ids))
		for i := range ids {
			// The order of the sums is different: the sinks are a separate segment.
			if close := closeTo(all[i], limited[i]); close != (i < ringLimit) {
				t.Errorf("%s: row %d equals that without a limit: %t, expected %t", name, i, close,
					i < ringLimit)
				break
			}
		}
	}
}

// closeTo reports whether all logits differ by less than 1e-4, a rounding error.
func closeTo(a, b []float32) bool {
	for i := range a {
		if d := a[i] - b[i]; !(-1e-4 < d && d < 1e-4) {
			return false
		}
	}
	return true
}
