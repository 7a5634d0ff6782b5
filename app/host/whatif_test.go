package host

import (
	"fmt"
	"strings"
	"testing"

	"headroom/app/library"
	"headroom/app/memory"
	"headroom/app/settings"
	"headroom/engine"
)

// describeFixed describes a model with fixed sizes: 10 bytes per token in the default format and 20
// in f16, 100 bytes of state per stream, 1,000 of weights and 50 of scratch. Its maximum context is
// 4,096 tokens.
func describeFixed(src engine.Source, o engine.Options) (engine.Description, error) {
	perToken := int64(10)
	if o.KVFormat == "f16" {
		perToken = 20
	}
	context := o.ContextTokens
	if context == 0 {
		context = 1024
	}
	return engine.Description{ContextTokens: 4096, RequestedTokens: context,
		KVBytesPerToken: perToken, Need: engine.Need{WeightsBytes: 1000, ScratchBytes: 50,
			StateBytes: 100 * int64(o.MaxSequences)}}, nil
}

func TestWhatIf(t *testing.T) {
	var options engine.Options
	h := newTestHostWith(t, func(o *Options) {
		o.Library = library.New(o.Library.Roots(), engine.Options{}, describeFixed)
		o.Engine = func(id string) engine.Options { return options }
	})
	for _, c := range []struct {
		name  string
		q     WhatIfQuery
		set   engine.Options
		first string
		// model, context, streams; then bytes of keys and values of one conversation, and of
		// states: with the first format, and with f16
		want string
	}{
		{"as it would be loaded", WhatIfQuery{Model: "a"}, engine.Options{},
			"8-bit keys, 4-bit values", "a 1024 8: 10240 800, 20480 800"},
		{"one stream", WhatIfQuery{Model: "a", Streams: 1}, engine.Options{},
			"8-bit keys, 4-bit values", "a 1024 1: 10240 100, 20480 100"},
		{"whole pages", WhatIfQuery{Model: "a", ContextTokens: 33, Streams: 2}, engine.Options{},
			"8-bit keys, 4-bit values", "a 33 2: 640 200, 1280 200"},
		{"no longer than it was trained for",
			WhatIfQuery{Model: "a", ContextTokens: 1 << 20, Streams: 1}, engine.Options{},
			"8-bit keys, 4-bit values", "a 4096 1: 40960 100, 81920 100"},
		{"as it is set", WhatIfQuery{Model: "b"},
			engine.Options{ContextTokens: 64, MaxSequences: 3, KVFormat: "f16"}, "16-bit, exact",
			"b 64 3: 1280 300, 1280 300"},
		{"set to a format that is not in kvChoices",
			WhatIfQuery{Model: "b", ContextTokens: 64, Streams: 1},
			engine.Options{KVFormat: "bf16"}, "as set for this model", "b 64 1: 640 100, 1280 100"},
		{"the bundled one", WhatIfQuery{ContextTokens: 32, Streams: 1}, engine.Options{},
			"8-bit keys, 4-bit values", "headroom-demo 32 1: 320 100, 640 100"},
	} {
		options = c.set
		got, err := h.WhatIf(c.q)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		var f16 WhatIfFormat
		for _, f := range got.Formats {
			if f.KVFormat == "f16" {
				f16 = f
			}
			if n := f.Need; f.NeedBytes != n.WeightsBytes+n.KVBytes+n.StateBytes+n.ScratchBytes ||
				f.FullBytes != f.NeedBytes+int64(got.Streams-1)*n.KVBytes ||
				n.WeightsBytes != 1000 || n.ScratchBytes != 50 {
				t.Errorf("%s, %s: %+v", c.name, f.Name, f)
			}
		}
		one := got.Formats[0]
		text := fmt.Sprintf("%s %d %d: %d %d, %d %d", got.Model, got.ContextTokens, got.Streams,
			one.Need.KVBytes, one.Need.StateBytes, f16.Need.KVBytes, f16.Need.StateBytes)
		if text != c.want || one.Name != c.first || got.TrainedTokens != 4096 {
			t.Errorf("%s: %q %s, want %q %s", c.name, one.Name, text, c.first, c.want)
		}
	}
	for name, want := range map[string]string{"unknown": "no model", "broken": ""} {
		if _, err := h.WhatIf(WhatIfQuery{Model: name}); (err == nil) != (want == "") ||
			err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}

// TestWhatIfOptions: the group size is used only with the format that it was set for. For the
// running model, the context is the one it runs with.
func TestWhatIfOptions(t *testing.T) {
	var described []engine.Options
	h := newTestHostWith(t, func(o *Options) {
		o.Library = library.New(o.Library.Roots(), engine.Options{},
			func(src engine.Source, o engine.Options) (engine.Description, error) {
				described = append(described, o)
				return describeFixed(src, o)
			})
		o.Engine = func(string) engine.Options {
			return engine.Options{KVFormat: "affine", KVBits: "(8, 8)", KVGroupSize: "32"}
		}
	})
	h.run("a")
	described = nil
	got, err := h.WhatIf(WhatIfQuery{})
	if err != nil || got.Model != "a" || got.ContextTokens != 4096 ||
		got.Formats[0].KVBits != "(8, 8)" {
		t.Errorf("%+v, %v", got, err)
	}
	for _, o := range described {
		if isSet := o.KVBits == "(8, 8)"; isSet != (o.KVGroupSize == "32") {
			t.Errorf("described with %+v", o)
		}
	}
	if len(described) != len(kvChoices) {
		t.Errorf("described %d times for %d formats", len(described), len(kvChoices))
	}
}

// TestWhatIfFits compares with values worked out by hand: 1,150 bytes are fixed, and a page takes
// 32 * 10 = 320 bytes.
func TestWhatIfFits(t *testing.T) {
	d, _ := describeFixed(engine.Source{}, engine.Options{MaxSequences: 1})
	for _, c := range []struct {
		room    int64
		tokens  int
		fits    memory.Fit
		largest int
	}{
		{1149, 32, memory.No, 0},
		{1150, 32, memory.No, 0},
		{1150 + 320, 32, memory.Tight, 32},
		{1150 + 2*320 - 1, 32, memory.Tight, 32},
		{10_000, 32, memory.Yes, 27 * 32}, // 8,850 / 320 = 27.7
		{1 << 40, 4096, memory.Yes, 4096},
	} {
		var f WhatIfFormat
		f.setSizes(d, nil, c.tokens, 2, c.room)
		if f.Fits != c.fits || f.LargestContextTokens != c.largest {
			t.Errorf("%d tokens in %d bytes: %s, largest %d; want %s, %d", c.tokens, c.room, f.Fits,
				f.LargestContextTokens, c.fits, c.largest)
		}
	}
	rings := engine.Description{ContextTokens: 777} // no layer keeps every token
	if got := rings.LargestContext(5); got != 777 {
		t.Errorf("the largest context at 0 bytes per token is %d, want 777", got)
	}
}

// TestRenewModel: changed settings change what a model needs, and the list shows it at once.
func TestRenewModel(t *testing.T) {
	tokens := 64
	h := newTestHostWith(t, func(o *Options) {
		o.Library = library.NewPerModel(o.Library.Roots(),
			func(string) engine.Options {
				return engine.Options{ContextTokens: tokens, MaxSequences: 1}
			}, describeFixed)
	})
	need := func() int64 { return h.Models(0).Models[1].NeedBytes }
	if got := need(); got != 1150+320*2 {
		t.Fatalf("needs %d", got)
	}
	before := h.State().ModelsVersion
	tokens = 128
	h.RenewModel("a")
	if got := need(); got != 1150+320*4 {
		t.Errorf("after a change of its settings it needs %d", got)
	}
	if now := h.State().ModelsVersion; now == before {
		t.Errorf("ModelsVersion stays %d", now)
	}
	if err := h.CheckModel("a", settings.Model{}, engine.Options{}); err != nil {
		t.Error(err)
	}
	if err := h.CheckModel("unknown", settings.Model{}, engine.Options{}); err == nil {
		t.Error("CheckModel accepts an unknown model")
	}
}

// TestWhatIfStart compares with values worked out by hand: the first 512 tokens of a conversation
// take 4 bytes each and all others 1.
func TestWhatIfStart(t *testing.T) {
	d := engine.Description{ContextTokens: 4096, KVStartTokens: 512, KVStartBytesPerToken: 4,
		KVBytesPerToken: 1}
	for _, c := range []struct {
		context int
		room    int64
		bytes   int64
		largest int
	}{
		{1000, 1 << 20, 512*4 + 512, 4096}, // 1,024 tokens in whole pages
		{100, 512*4 + 100, 128 * 4, 512 + 96},
		{100, 100 * 4, 128 * 4, 96},
	} {
		var f WhatIfFormat
		if f.setSizes(d, nil, c.context, 2, c.room); f.Need.KVBytes != c.bytes ||
			f.LargestContextTokens != c.largest {
			t.Errorf("%+v: %d bytes, at most %d tokens", c, f.Need.KVBytes, f.LargestContextTokens)
		}
	}
}
