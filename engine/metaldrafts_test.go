package engine_test

// Decoding ahead on Metal devices. A row has the same bits in any pass there too, so tokens are
// those of plain decoding, whose passes overlap.

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"headroom/engine"
	"headroom/engine/sample"
)

func TestMetalDrafts(t *testing.T) { onMetalDevices(t, testMetalDrafts) }

func testMetalDrafts(t *testing.T, device string) {
	for i, m := range []struct {
		name string
		src  engine.Source
		own  bool // the model has a block that drafts, or a draft model
		// copied is true if a copy of the model drafts.
		copied bool
		dflash bool // the draft model is a DFlash drafter
		// least is how many drafts are expected. The slots for states bound those of others.
		least int64
	}{{"qwen3", tinySource(t, "qwen3"), false, false, false, 50},
		{"lfm2", tinySource(t, "lfm2"), false, false, false, 40},
		{"granitemoehybrid", tinySource(t, "granitemoehybrid"), false, false, false, 40},
		{"deepseek_v3", tinySource(t, "deepseek_v3"), false, false, false, 40},
		{"qwen3_5_text", mtpSource(t, "qwen3_5_text"), true, false, false, 50},
		{"glm4_moe_lite", ownBlock("glm4_moe_lite")(t), true, false, false, 50},
		{"qwen3_5_text with a draft model", tinySource(t, "qwen3_5_text"), true, true, false, 50},
		{"qwen3_5_text with a drafter", tinySource(t, "qwen3_5_text"), true, false, true, 50}} {
		if !long() && i%4 != 1 && device == engine.DeviceSim {
			continue
		}
		o := engine.Options{ContextTokens: 256, MaxSequences: 3, ChunkTokens: 64, KeptStates: 4,
			KVBits: "(8, 4)"}
		plain := openMetal(t, device, m.src, o)
		o.Speculate = engine.SpeculateAuto
		if m.copied {
			o.KeptStates = 16 // else the crowd's drafts depend on who takes the slots first
			o.DraftModel = &engine.DraftModel{Source: m.src, Required: true}
		}
		if m.dflash {
			o.DraftModel = &engine.DraftModel{Source: dflashSource(t, nil), Required: true}
		}
		ahead := openMetal(t, device, m.src, o)
		d := &drafter{r: rand.New(rand.NewPCG(1, 9)), vocab: 300, depth: 3, wrong: 0.3}
		var requests []engine.Request
		var want [][]int32
		for i := range 4 {
			r := engine.Request{Prompt: someIDs(i, 20+25*i), MaxTokens: 14, IgnoreEOS: true,
				Sampling: sample.Params{Logprobs: -1}}
			switch i {
			case 1: // the host samples
				r.Sampling = sample.Params{Logprobs: -1, Temperature: 0.8, Seed: new(uint64(3)),
					RepetitionPenalty: 1.1}
			case 3: // the device does
				r.Sampling = sample.Params{Logprobs: -1, Temperature: 0.8, Seed: new(uint64(4)),
					TopK: 20, LogitBias: map[int32]float32{7: 2}}
			}
			tokens := run(t, plain, r, 0).tokens
			requests, want = append(requests, r), append(want, tokens)
			d.answers = append(d.answers, slices.Concat(r.Prompt, tokens))
		}
		check := func(how string) {
			t.Helper()
			compare := func(i int, got []int32) {
				if !compileOnly && !slices.Equal(got, want[i]) {
					t.Errorf("%s, %s, request %d: %d, plain %d", m.name, how, i, got, want[i])
				}
			}
			for i, r := range requests {
				compare(i, run(t, ahead, r, 0).tokens)
			}
			var crowd sync.WaitGroup
			for i, r := range requests {
				crowd.Go(func() { compare(i, run(t, ahead, r, 0).tokens) })
			}
			crowd.Wait()
		}
		ahead.AlwaysDraft(d.propose)
		check("drafts")
		ahead.AlwaysDraft(nil)
		if m.own {
			ahead.DraftDepth(2)
			check("its own drafts")
		}
		idle(t, ahead)
		if err := ahead.CheckMemory(); err != nil {
			t.Error(err)
		}
		s := ahead.Stats()
		t.Logf("%s: %d of %d drafts right, %d of %d of a draft model", m.name, s.AcceptedTokens,
			s.DraftTokens, s.DraftModelAccepted, s.DraftModelTokens)
		// Those of the two greedy requests, whose 13 drafts are verified twice, and few others.
		if m.copied && !compileOnly && s.DraftModelAccepted < 20 {
			t.Errorf("%s: %d of %d drafts of the draft model right, expected about 26", m.name,
				s.DraftModelAccepted, s.DraftModelTokens)
		}
		if s.AcceptedTokens == 0 || s.DraftTokens < m.least {
			t.Errorf("%s: %d of %d drafts right", m.name, s.AcceptedTokens, s.DraftTokens)
		}
	}
}
