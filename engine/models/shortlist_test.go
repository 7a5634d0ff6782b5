package models_test

import (
	"slices"
	"testing"

	"headroom/engine/batch"
	"headroom/engine/cache"
	"headroom/engine/models"
	"headroom/engine/models/modelstest"
	"headroom/engine/runner"
	"headroom/kernels"
)

// TestShortlistDrafts: drafts from a list have the logits of those of the whole vocabulary, for a
// block and for an assistant. Models of such a small vocabulary have no list of their own.
func TestShortlistDrafts(t *testing.T) {
	d := cpuDevice(t, 2)
	block := withMTP(readTiny(t, "qwen3_5_text"), "model.layers.3.").loadWith(t, d,
		models.LoadDrafter)
	assisted, err := loadAssisted(t, d, "gemma4_text",
		assistantSource(t, false, nil, modelstest.SharedTarget))
	if err != nil {
		t.Fatal(err)
	}
	for name, m := range map[string]models.Model{"block": block, "assistant": assisted} {
		if m.Spec().Shortlist != nil {
			t.Errorf("%s: a list for a vocabulary of %d", name, m.Spec().VocabSize)
		}
		r := runner.New(d, m, runner.Options{KV: cache.Plain(kernels.F32), Pages: 1, Slots: 1,
			BatchRows: 24, LogitsRows: 24})
		ids := someTokens(24)
		span := kernels.Span{Rows: 23, Pages: []int32{0}}
		if _, err := r.Step(ids[:23], []kernels.Span{span}, []int32{22}); err != nil {
			t.Fatal(err)
		}
		span.Rows, span.Pos = 1, 23
		if r.InPlace() {
			span.Pos = 22
		}
		list := batch.Shortlist{Vocab: r.VocabSize(), First: 40, Last: 7,
			Between: []int32{50, 300, 41}}
		draft := func(list *batch.Shortlist) []float32 {
			logits, err := r.DraftListed(ids[23:], []kernels.Span{span}, nil, list)
			if err != nil {
				t.Fatal(err)
			}
			return slices.Clone(logits)
		}
		all, got := draft(nil), draft(&list)
		var want []float32
		for i := range int32(list.Size()) {
			want = append(want, all[list.Token(i)])
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: logits %g, expected %g", name, got, want)
		}
	}
}

// TestShortlistSize: 66,559 tokens are too few for a list, and one more is enough.
func TestShortlistSize(t *testing.T) {
	for vocab, want := range map[int]bool{2_304: false, 66_559: false, 66_560: true,
		151_936: true} {
		if list := models.ShortlistOf(vocab); (list != nil) != want ||
			want && (list.Vocab != vocab || 2*list.Size() > vocab) {
			t.Errorf("%d tokens: the list is %+v", vocab, list)
		}
	}
}
