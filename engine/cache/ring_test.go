package cache

import (
	"slices"
	"testing"

	"headroom/kernels"
)

// TestRingPages compares with numbers computed by hand. A window of 16 tokens and a span of 40 need
// 16+40-1 = 55 positions, which are 2 pages of 32. A window of 44 and a span of 40 need 83
// positions, which are 3 pages. 4 sink tokens take 1 page more.
func TestRingPages(t *testing.T) {
	for _, c := range []struct {
		s     LayerSpec
		span  int
		pages int
	}{
		{LayerSpec{Window: 16}, 40, 2}, {LayerSpec{Window: 16}, 49, 2},
		{LayerSpec{Window: 16}, 50, 3}, {LayerSpec{Window: 1}, 1, 1},
		{LayerSpec{Window: 44, SinkTokens: 4}, 40, 4},
		{LayerSpec{Window: 44, SinkTokens: 33}, 40, 5},
	} {
		if got := c.s.ringPages(c.span); got != c.pages {
			t.Errorf("%+v and spans of %d: %d pages, expected %d", c.s, c.span, got, c.pages)
		}
	}
}

func TestRingTables(t *testing.T) {
	r := newRing(LayerSpec{Window: 44, SinkTokens: 4}, Options{Pages: 9, Slots: 3, SpanTokens: 40})
	spans := []kernels.Span{{Rows: 1, Pos: 200, Slot: 2, Pages: []int32{77}},
		{Row: 1, Rows: 5, Slot: 0}}
	got := r.Spans(spans)
	if want := []int32{8, 9, 10, 11, 9, 10, 11, 9, 10}; !slices.Equal(got[0].Pages, want) ||
		got[0].Pos != 200 || got[0].Rows != 1 {
		t.Errorf("slot 2: %+v, expected pages %v", got[0], want)
	}
	if want := []int32{0, 1, 2, 3, 1, 2, 3, 1, 2}; !slices.Equal(got[1].Pages, want) ||
		got[1].Row != 1 {
		t.Errorf("slot 0: %+v, expected pages %v", got[1], want)
	}
	if !slices.Equal(spans[0].Pages, []int32{77}) {
		t.Error("the caller's spans have changed")
	}
	if n := testing.AllocsPerRun(10, func() { r.Spans(spans) }); n > 0 {
		t.Errorf("%g allocations for slots that were used before, expected none", n)
	}
}

func TestLimit(t *testing.T) {
	full := LayerSpec{KVHeads: 2, HeadDim: 64}
	sliding := LayerSpec{KVHeads: 2, HeadDim: 64, Window: 512}
	recurrent := LayerSpec{StateValues: 3}
	specs := []LayerSpec{full, sliding, recurrent}
	window := func(tokens, sinks int) LayerSpec {
		return LayerSpec{KVHeads: 2, HeadDim: 64, Window: tokens, SinkTokens: sinks}
	}
	for _, c := range []struct {
		tokens int
		want   []LayerSpec
	}{
		{0, specs}, {1024, []LayerSpec{window(1020, 4), sliding, recurrent}},
		{512, []LayerSpec{window(508, 4), sliding, recurrent}},
		{100, []LayerSpec{window(96, 4), window(100, 0), recurrent}},
		{1, []LayerSpec{window(28, 4), window(32, 0), recurrent}},
	} {
		if got := Limit(specs, c.tokens); !slices.Equal(got, c.want) {
			t.Errorf("limit %d: %+v, expected %+v", c.tokens, got, c.want)
		}
	}
	if specs[0] != full {
		t.Error("the caller's specs have changed")
	}
}

// TestRingsAllocateWhatThePlanSays compares allocations with RingBytes. Rings are regions of slots,
// not of pages, and layers with the same window share their tables.
func TestRingsAllocateWhatThePlanSays(t *testing.T) {
	const pages, slots, span = 7, 3, 40
	specs := append(slices.Clone(specs), LayerSpec{KVHeads: 2, HeadDim: 64, Window: 16},
		LayerSpec{KVHeads: 1, HeadDim: 64, Window: 16},
		LayerSpec{KVHeads: 1, HeadDim: 32, Window: 44, SinkTokens: 4})
	for _, f := range []Format{Plain(kernels.F16), Affine(), {}} {
		d := &counting{DryRun: kernels.NewDryRun()}
		layers := New(d, specs, Options{Format: f, Pages: pages, Slots: slots, SpanTokens: span})
		state := SlotBytes(specs, StateFormat{}) + RingBytes(specs, f, span)
		if want := pages*PageBytes(specs, f) + slots*state; d.bytes != want {
			t.Errorf("allocated %d bytes, planned %d", d.bytes, want)
		}
		var page, slot int64
		for _, r := range PageRegions(layers, false) {
			page += int64(r.PieceBytes)
		}
		for _, r := range SlotRegions(layers) {
			slot += int64(r.PieceBytes)
		}
		if page != PageBytes(specs, f) || slot != state {
			t.Errorf("regions of %d and %d bytes, planned %d and %d", page, slot,
				PageBytes(specs, f), state)
		}
		if layers[0].Ring != nil || layers[4].Ring == nil || layers[4].Ring != layers[5].Ring ||
			layers[4].Ring == layers[6].Ring {
			t.Error("expected exactly the layers with the same window to share page tables")
		}
	}
}
