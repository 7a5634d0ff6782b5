package engine_test

import (
	"errors"
	"strings"
	"testing"

	"headroom/engine"
	"headroom/engine/problem"
	"headroom/engine/sample"
)

// TestKVFormatIsWhatWasAsked: six attention layers of 2 heads of 128. f16 is 1,024 bytes a token and layer; K8 g64 272 and V4 g32 160,
// or V8 g32 288 in the four layers at the ends; q4_0 144.
func TestKVFormatIsWhatWasAsked(t *testing.T) {
	for _, test := range []struct {
		o     engine.Options
		words string
		bytes int64
	}{
		{engine.Options{}, "K8 g64 + V4 g32, first and last 2 layers K8 V8", 2*432 + 4*560},
		{engine.Options{KVFormat: "affine", KVBoundaryLayers: -1}, "K8 g64 + V4 g32", 6 * 432},
		{engine.Options{KVBits: "(6, 4)", KVGroupSize: "64", KVBoundaryLayers: 1, KVBoundaryBits: 6}, "K6 g64 + V4 g64, first and last layer K6 V6", 4*352 + 2*416},
		{engine.Options{KVFormat: "f16"}, "f16", 6 * 1024},
		{engine.Options{KVFormat: "q4_0"}, "q4_0", 6 * 288},
	} {
		o := test.o
		o.ContextTokens, o.MaxSequences = 512, 1
		e := open(t, o)
		if i := e.Info(); i.KVFormat != test.words || i.KVBytesPerToken != test.bytes || i.Need.KVBytes%(32*test.bytes) != 0 {
			t.Errorf("%+v: %q, %d bytes a token, expected %q, %d", test.o, i.KVFormat, i.KVBytesPerToken, test.words, test.bytes)
		}
		_, text, done := collect(t, submit(t, e, engine.Request{Prompt: []int32{1, 2, 3, 4, 5}, MaxTokens: 4, Sampling: sample.Params{}}))
		if done.Usage.CompletionTokens == 0 {
			t.Errorf("%s: no answer, %q", test.words, text)
		}
	}
	for _, o := range []engine.Options{{KVFormat: "q8"}, {KVBits: "7"}, {KVFormat: "f16", KVBits: "8"}} {
		_, err := engine.Describe(demoSource(t), o)
		var p *problem.Problem
		if !errors.As(err, &p) || p.Code != problem.BadRequest || !strings.Contains(p.Error(), "KV cache format") {
			t.Errorf("%+v: %v, expected a bad request about the format", o, err)
		}
	}
}
