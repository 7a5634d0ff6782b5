package models_test

// Tests of models whose cache stores the first tokens of a sequence, the start, in float16.

import (
	"fmt"
	"slices"
	"testing"

	"headroom/engine/cache"
	"headroom/engine/runner"
	"headroom/kernels"
	"headroom/kernels/cpu"
)

// TestStart checks that rows in the start have the same bits as with a float16 cache, and later
// rows do not. The bits of a row must not depend on chunks or on another sequence in the batch, and
// must be the same when decoding. Layers with a window have no start.
func TestStart(t *testing.T) {
	const start, tokens = 512, 560
	for _, name := range architectures {
		layers := layersOf(t, name)
		if !keepsAll(layers) {
			continue
		}
		if cpu.Best() == cpu.Generic && name != "qwen3" {
			// With the plain Go kernels, each model takes seconds.
			continue
		}
		t.Run(name, func(t *testing.T) {
			ids := readExpected(t, name)[4].IDs
			ids = slices.Concat(ids, ids)[:tokens]
			open := func(o cache.FormatOptions) *rig {
				kv, err := cache.ParseFormat(o)
				if err != nil {
					t.Fatal(err)
				}
				return withStart(newTinyWith(t, cpuDevice(t, 2), name,
					runner.Options{KV: kv, StartPages: 20 * min(o.StartTokens, 1), Slots: 2,
						BatchRows: tokens}))
			}
			f16 := open(cache.FormatOptions{Name: "f16"}).score(ids, tokens)
			coarse := open(cache.FormatOptions{Name: "q4_0"}).score(ids, tokens)
			r := open(cache.FormatOptions{Name: "q4_0", StartTokens: 300})
			whole := r.score(ids, tokens)
			if !slides(layers) && !equalBits(whole[:start], f16[:start]) {
				// Layers with a window use q4_0 for the start too.
				t.Error("the logits in the start differ from those of a float16 cache")
			}
			if equalBits(whole[:start], coarse[:start]) ||
				equalBits(whole[start:], coarse[start:]) || equalBits(whole[start:], f16[start:]) {
				t.Error("the logits equal those of one format for all tokens")
			}
			for _, chunk := range []int{37, 511} {
				if got := r.score(ids, chunk); !equalBits(got, whole) {
					t.Errorf("computing the prompt in chunks of %d changes the logits", chunk)
				}
			}
			r.score(ids[:start-4], start-4)
			for from := start - 4; from < start+8; from++ {
				beside := kernels.Span{Rows: 1, Pos: from - start + 4, Pages: r.pages[1], Slot: 1}
				got := r.step([]int32{7, ids[from]}, beside,
					kernels.Span{Row: 1, Rows: 1, Pos: from, Pages: r.pages[0]})
				if !equalBits(got[1:], whole[from:from+1]) {
					t.Fatalf("decoding from position %d changes the logits", from)
				}
			}
		})
	}
}

// withStart sets page tables whose first 16 entries are start pages, from the first 20 of the 32
// pages. The tables are also valid for a cache without a start.
func withStart(r *rig) *rig {
	r.pages = [2][]int32{{}, {0, 1}}
	for i := range int32(16) {
		r.pages[0] = append(r.pages[0], 19-i)
	}
	r.pages[0] = append(r.pages[0], 30, 21)
	return r
}

// TestStartIsCopied checks that CopyPage copies pages of both kinds.
func TestStartIsCopied(t *testing.T) {
	kv, err := cache.ParseFormat(cache.FormatOptions{StartTokens: 512})
	if err != nil {
		t.Fatal(err)
	}
	r := newTinyWith(t, cpuDevice(t, 1), "qwen3",
		runner.Options{KV: kv, StartPages: 3, Slots: 1, BatchRows: 1})
	for _, start := range []bool{true, false} {
		from, to := int32(3), int32(31)
		if start {
			from, to = 0, 2
		}
		regions := r.PageRegions(start)
		for i, g := range regions {
			for j := range g.Piece(from) {
				g.Piece(from)[j] = byte(i + j%7)
			}
		}
		r.CopyPage(from, to)
		for _, g := range regions {
			if !slices.Equal(g.Piece(from), g.Piece(to)) {
				t.Error(fmt.Sprint(g.Name, " was not copied"))
			}
		}
	}
}
