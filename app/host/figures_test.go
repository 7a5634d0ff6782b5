package host

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"headroom/app/library"
	"headroom/app/memory"
	"headroom/engine"
	"headroom/engine/problem"
)

// figureModels writes random models of the shapes of tiny ones into a folder: with attention alone,
// with rings, and with recurrent states and a block that drafts.
func figureModels(t *testing.T) (root string) {
	root = t.TempDir()
	for _, name := range []string{"qwen3", "gemma3_text", "qwen3_5_text"} {
		config := map[string]any{}
		text, err := os.ReadFile(filepath.Join("..", "..", "engine", "models", "testdata", "tiny",
			name, "config.json"))
		if err == nil {
			err = json.Unmarshal(text, &config)
		}
		if name == "qwen3_5_text" {
			config["mtp_num_hidden_layers"] = 1
		}
		config["quantization"] = map[string]int{"bits": 4, "group_size": 32}
		config["max_position_embeddings"] = 40_960
		if err == nil {
			text, err = json.Marshal(config)
		}
		if err == nil {
			err = os.Mkdir(filepath.Join(root, name), 0o755)
		}
		if err == nil {
			err = engine.WriteRandom(filepath.Join(root, name), text)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// TestOneFigure tries random settings and free memory. What a model needs is the same in the list,
// in the what-if panel and for the command line. It is loaded exactly if it was said to fit, and
// then it needs what was said.
func TestOneFigure(t *testing.T) {
	var set engine.Options
	var free atomic.Int64 // the loader reads it too
	h := newTestHostWith(t, func(o *Options) {
		o.Library = library.NewPerModel([]string{figureModels(t)},
			func(string) engine.Options { return set }, engine.Describe)
		o.Engine = func(string) engine.Options { return set }
		o.Open = nil
		o.Meter = memory.NewMeter(func([]int) (memory.Reading, error) {
			return memory.Reading{TotalBytes: 32 * gib, AvailableBytes: free.Load()}, nil
		})
	})
	random := rand.New(rand.NewPCG(21, 1))
	pick := func(values ...int) int { return values[random.IntN(len(values))] }
	fits := map[memory.Fit]int{}
	rounds := 12
	if os.Getenv("HEADROOM_LONG") != "" {
		rounds = 60
	}
	for round := range rounds {
		set = engine.Options{ContextTokens: pick(0, 0, 512, 4096), MaxSequences: pick(0, 1, 3),
			MaxKVTokens: pick(0, 0, 0, 256), ChunkTokens: 64, Threads: 1,
			KVFormat: []string{"", "f16"}[round%2], Speculate: engine.SpeculateAuto}
		free.Store(0)
		if round > 0 {
			free.Store(int64(1<<16) << random.IntN(14))
		}
		if _, err := h.options.Meter.Fresh(); err != nil {
			t.Fatal(err)
		}
		for _, m := range h.models.list() {
			h.options.Library.Renew(m)
		}
		h.models.rescan()
		list := h.Models(0)
		for _, m := range list.Models[1:] {
			label := fmt.Sprintf("%+v in %d: %s", set, list.RoomBytes, m.ID)
			w, err := h.WhatIf(WhatIfQuery{Model: m.ID})
			if err != nil {
				t.Fatal(err)
			}
			one := w.Formats[0]
			if one.NeedBytes != m.NeedBytes || one.Need != m.Need || one.Fits != m.Fits ||
				w.RoomBytes != list.RoomBytes || h.State().RoomBytes != list.RoomBytes {
				t.Errorf("%s: the list says %+v %s, the panel %+v %s", label, m.Need, m.Fits,
					one.Need, one.Fits)
			}
			fits[m.Fits]++
			if round%5 > 0 && m.Fits != memory.No {
				continue // loading takes a while
			}
			h.checkLoad(label, m)
		}
	}
	if len(fits) < 2 || fits[memory.No] == 0 {
		t.Errorf("only these verdicts: %v", fits)
	}
}

// checkLoad starts a model and compares what happens with what its entry of the list says.
func (h *testHost) checkLoad(label string, m Model) {
	h.t.Helper()
	if err := h.Start(m.ID); err != nil {
		h.t.Fatal(label, err)
	}
	err := h.Wait(h.t.Context())
	if loaded := err == nil; loaded != (m.Fits != memory.No) {
		h.t.Errorf("%s: it needs %d, %s was said, got %v", label, m.NeedBytes, m.Fits, err)
	}
	if err != nil && problem.From(err).Code != problem.DoesNotFit {
		h.t.Errorf("%s: got %v", label, err)
	}
	if t := h.frontTarget(); err == nil && t != nil {
		info := t.engine.Info()
		if got := info.Need.TotalBytes(); got != m.NeedBytes ||
			info.ContextTokens != m.Need.ContextTokens {
			h.t.Errorf("%s: said were %d bytes and %d tokens, loaded were %d and %d", label,
				m.NeedBytes, m.Need.ContextTokens, got, info.ContextTokens)
		}
		s := t.engine.Stats()
		got := engineBytes(s).Total() + s.ConversationBytes
		if got != m.NeedBytes || s.KVBytes != 0 {
			h.t.Errorf("%s: at rest it holds %d bytes of %d, with %d of pages", label, got,
				m.NeedBytes, s.KVBytes)
		}
		if most := info.KVBytes(4096+128) + info.Need.StateBytes; s.ReservedBytes > most {
			h.t.Errorf("%s: at rest %d bytes are reserved, want at most %d", label,
				s.ReservedBytes, most)
		}
	}
	h.Stop()
}

// TestMoreContextNeedsMore: a longer context never needs less, with the same free memory; nor does
// a model get a shorter context in more memory.
func TestMoreContextNeedsMore(t *testing.T) {
	l := library.New([]string{figureModels(t)}, engine.Options{}, engine.Describe)
	for _, m := range l.Scan()[1:] {
		for _, o := range []engine.Options{{}, {KVFormat: "f16", MaxSequences: 1},
			{KVStartTokens: 512}, {NoPrefixCache: true}, {Speculate: engine.SpeculateAuto}} {
			d, err := l.DescribeWith(m, o)
			if err != nil {
				t.Fatal(err)
			}
			last := int64(0)
			for tokens := 0; tokens <= d.ContextTokens+100; tokens += 485 {
				need := needOf(d, nil, 1<<50, max(tokens, 1)).TotalBytes()
				if need < last {
					t.Errorf("%s, %+v: %d tokens need %d bytes, fewer need %d", m.ID, o, tokens,
						need, last)
				}
				last = need
				if tokens := d.LargestContext(need); need != d.NeedAt(tokens).TotalBytes() {
					t.Errorf("%s, %+v: in %d bytes at most %d tokens, which need %d", m.ID, o,
						need, tokens, d.NeedAt(tokens).TotalBytes())
				}
				set := o
				set.ContextTokens = max(tokens, 1)
				if tokens%4850 == 0 { // a plan for this context says the same
					p, err := l.DescribeWith(m, set)
					if got := p.Need.TotalBytes(); err != nil || got != need {
						t.Errorf("%s, %+v: a plan needs %d, want %d; %v", m.ID, set, got, need,
							err)
					}
				}
			}
			context := 0
			for room := int64(1 << 18); room < 1<<34; room += room / 3 {
				next := d.ContextWithin(room)
				if next < context {
					t.Errorf("%s, %+v: %d tokens in %d bytes, %d in fewer", m.ID, o, next, room,
						context)
				}
				context = next
			}
		}
	}
}

// TestShares: a model that is alone gets what a conversation needs. Several never get more than is
// free, and caches only what conversations leave.
func TestShares(t *testing.T) {
	for _, test := range []struct {
		lacks      []int64
		free, room int64
		alone      bool
		want       []engine.Growth
	}{
		{[]int64{30}, 10, 5, true, []engine.Growth{{ConversationBytes: 30}}},
		{[]int64{30}, 10, 5, false, []engine.Growth{{ConversationBytes: 10}}},
		{[]int64{30, 10}, 100, 90, false, []engine.Growth{
			{ConversationBytes: 30, CacheBytes: 25}, {ConversationBytes: 10, CacheBytes: 25}}},
		{[]int64{30, 10}, 20, 15, false, []engine.Growth{{ConversationBytes: 15},
			{ConversationBytes: 5}}},
		{[]int64{30, 0}, -5, -9, false, []engine.Growth{{}, {}}},
	} {
		got := shares(test.lacks, test.free, test.room, test.alone)
		if !slices.Equal(got, test.want) {
			t.Errorf("%+v: got %+v", test, got)
		}
	}
}

// TestIdleConversationIsNotReserved: a load beside an idle model may take the memory of its
// conversation. That model gets what is left, and nothing of what the load needs meanwhile.
func TestIdleConversationIsNotReserved(t *testing.T) {
	m := newMachine(t, 20, 60, 0)
	m.request("a")()
	m.mu.Lock()
	a := m.loaded["a"]
	m.mu.Unlock()
	a.mu.Lock()
	a.stats.ReservedBytes, a.stats.ConversationBytes = gib, 30*gib
	a.mu.Unlock()
	m.limitGrowth()
	if got := a.allowed().ConversationBytes; got != 30*gib {
		t.Errorf("alone it may use %d bytes, want 30 GiB", got)
	}
	m.request("b")()
	if !slices.Equal(m.loads, []string{"a", "b"}) || a.isClosed() {
		t.Errorf("loaded were %v, a is closed: %v", m.loads, a.isClosed())
	}
	// Of 100 GiB, 20 + 1 and 60 are taken; 19 are free.
	if got := a.allowed(); got != (engine.Growth{ConversationBytes: 18 * gib}) {
		t.Errorf("beside another model it may use %+v, want 18 GiB", got)
	}
}

// TestGrowthIsShared: loaded models may grow into what is available, each into an equal part.
func TestGrowthIsShared(t *testing.T) {
	m := newMachine(t, 20, 30, 0)
	m.request("a")()
	m.request("b")()
	m.mu.Lock()
	m.available = 50 * gib
	m.mu.Unlock()
	m.options.Meter.Forget(-1) // the next reading is a new one
	m.limitGrowth()
	for _, name := range []string{"a", "b"} {
		m.mu.Lock()
		got := m.loaded[name].growth.Load()
		m.mu.Unlock()
		if want := int64(21 * gib); got != want { // 50 less 8 of reserve, for two
			t.Errorf("%s may grow by %d, want %d", name, got, want)
		}
	}
}
