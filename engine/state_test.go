package engine_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"headroom/engine"
	"headroom/engine/problem"
)

// TestStateFormat compares with sizes computed by hand. The demo model has 6 recurrent layers. The
// state of each has 4 heads of 128 value rows with 128 values, and 3 rows of 1,024 channels for the
// convolution. In int8 there is a scale per value row, and one per 64 channels.
func TestStateFormat(t *testing.T) {
	for _, test := range []struct {
		format, words string
		bytes         int64
	}{
		{"", "f32", 6 * 4 * (4*128*128 + 3*1024)},
		{"f32", "f32", 6 * 4 * (4*128*128 + 3*1024)},
		{"bf16", "bf16", 6 * 2 * (4*128*128 + 3*1024)},
		{"int8", "int8", 6 * (4*128*(4+128) + 3*(4*16+1024))},
	} {
		e := open(t, engine.Options{StateFormat: test.format, ContextTokens: 512, MaxSequences: 3,
			NoPrefixCache: true})
		if i := e.Info(); i.StateFormat != test.words || i.StateBytesPerSeq != test.bytes ||
			i.Need.StateBytes != 3*test.bytes {
			t.Errorf("%q: %q, %d bytes per sequence, %d in all, expected %q, %d, %d", test.format,
				i.StateFormat, i.StateBytesPerSeq, i.Need.StateBytes, test.words, test.bytes,
				3*test.bytes)
		}
		if got := e.SlotBytes(); got != test.bytes {
			t.Errorf("%q: %d bytes allocated per slot, expected %d", test.format, got, test.bytes)
		}
	}
	_, err := engine.Describe(demoSource(t), engine.Options{StateFormat: "f16"})
	var p *problem.Problem
	if !errors.As(err, &p) || p.Code != problem.BadRequest ||
		!strings.Contains(p.Error(), "f32, bf16 or int8") {
		t.Errorf("f16: got %v, expected a bad request that names the valid formats", err)
	}
}

// TestPrefixCacheInEveryStateFormat runs prompts that resume a kept state while another request
// runs. They must have the same log-probabilities as alone and without a prefix cache.
func TestPrefixCacheInEveryStateFormat(t *testing.T) {
	for _, format := range []string{"f32", "bf16", "int8"} {
		with, without := open(t, engine.Options{StateFormat: format}),
			open(t, engine.Options{StateFormat: format, NoPrefixCache: true})
		text := "<|im_start|>system\n" + strings.Repeat("Answer briefly. ", 30) + "<|im_end|>\n"
		for turn, question := range []string{"What is a KV cache?", "What is 63 + 29?",
			"Why are models quantized?"} {
			text += "<|im_start|>user\n" + question + "<|im_end|>\n<|im_start|>assistant\n"
			prompt := text + "<think>\n\n</think>\n\n"
			other := submit(t, with,
				engine.Request{Prompt: encode(with,
					"<|im_start|>user\nCount: "+strings.Repeat("one two ", 50)), MaxTokens: 30})
			got, _, cached := logprobs(t,
				submit(t, with, engine.Request{Prompt: encode(with, prompt), MaxTokens: 40}))
			want, answer, none := logprobs(t,
				submit(t, without, engine.Request{Prompt: encode(without, prompt), MaxTokens: 40}))
			collect(t, other)
			if !slices.Equal(got, want) {
				t.Errorf("%s, turn %d: the cache changes the log-probabilities", format,
					turn)
			}
			if none != 0 || turn > 0 && cached == 0 {
				t.Errorf("%s, turn %d: %d tokens cached with the cache, expected some after "+
					"turn 0, and %d without, expected 0", format, turn, cached, none)
			}
			text += answer + "<|im_end|>\n"
		}
		with.Close()
		without.Close()
	}
}

// logprobs reads a stream to its end.
func logprobs(t *testing.T, s *engine.Stream) (all []float32, text string, cached int) {
	t.Helper()
	for {
		ev, err := s.Next(context.Background())
		if errors.Is(err, io.EOF) {
			return all, text, cached
		}
		if err != nil {
			t.Fatal(err)
		}
		text += ev.Text
		switch ev.Type {
		case engine.Token:
			all = append(all, ev.Logprob)
		case engine.Done:
			cached = ev.Usage.CachedTokens
		}
	}
}
