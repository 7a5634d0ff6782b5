package engine_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"headroom/engine"
)

// tinyConfig has 2 layers of 49,152 parameters and a head of 16,384, all in 4 bits with a scale and
// a bias of 16 bits for 64.
const tinyConfig = `{"model_type": "qwen3", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
	"num_key_value_heads": 2, "head_dim": 32, "vocab_size": 256, "rms_norm_eps": 1e-6, "rope_theta": 1e6, "max_position_embeddings": 4096,
	"tie_word_embeddings": true, "attention_bias": false, "hidden_act": "silu", "quantization": {"group_size": 64, "bits": 4}}`

// TestCost: what tokens cost at least, worked out by hand.
func TestCost(t *testing.T) {
	const (
		layers, head = 2 * 49152, 16384
		weights      = (layers + head) * 9 / 16 // bytes
		// bytes of a position: layers, heads, dimensions, keys and values in 16 bits
		kv = 2 * 2 * 32 * (2 + 2)
		// operations for a position: layers, products, multiply-add, width of the queries
		attention = 2 * 2 * 2 * 128
	)
	e := openModel(t, engine.Random([]byte(tinyConfig)),
		engine.Options{Device: engine.DeviceCPU, Threads: 1, KVFormat: "f16", ChunkTokens: 2,
			ContextTokens: 64})
	for _, c := range []struct {
		name      string
		got, want engine.Cost
	}{
		{"a token after ten", e.DecodeCost(1, 10),
			engine.Cost{Bytes: weights + 11*kv, Int8Ops: 2 * (layers + head),
				Float32Ops: 11 * attention}},
		{"three together", e.DecodeCost(3, 10),
			engine.Cost{Bytes: weights + 3*11*kv, Int8Ops: 3 * 2 * (layers + head),
				Float32Ops: 3 * 11 * attention}},
		// Passes of two tokens and one; the first reads no head, and each row attends to all up to
		// itself.
		{"a prompt", e.PromptCost(0, 3),
			engine.Cost{Bytes: 2*weights - head*9/16 + (2+3)*kv, Int8Ops: 2 * (3*layers + head),
				Float32Ops: (1 + 2 + 3) * attention}},
		{"its end", e.PromptCost(2, 3),
			engine.Cost{Bytes: weights + 3*kv, Int8Ops: 2 * (layers + head),
				Float32Ops: 3 * attention}},
		{"nothing", e.PromptCost(3, 3), engine.Cost{}},
	} {
		if c.got != c.want {
			t.Errorf("%s: %+v, expected %+v", c.name, c.got, c.want)
		}
	}
	exact := openModel(t, engine.Random([]byte(tinyConfig)),
		engine.Options{Device: engine.DeviceCPU, Threads: 1, KVFormat: "f16", ContextTokens: 64,
			Float32Activations: true})
	if got, want := exact.DecodeCost(1, 10),
		(engine.Cost{Bytes: weights + 11*kv,
			Float32Ops: 2*(layers+head) + 11*attention}); got != want {
		t.Errorf("float32 activations: %+v, expected %+v", got, want)
	}
}

// TestCeilings: the longer of memory and arithmetic binds, and what is unknown does not.
func TestCeilings(t *testing.T) {
	m := engine.Ceilings{ReadBytes: 1000, Int8Ops: 100, Float32Ops: 10}
	for _, c := range []struct {
		name     string
		m        engine.Ceilings
		cost     engine.Cost
		least    time.Duration
		byMemory bool
	}{
		{"memory", m, engine.Cost{Bytes: 5000, Int8Ops: 300, Float32Ops: 10}, 5 * time.Second,
			true},
		{"arithmetic of both kinds", m, engine.Cost{Bytes: 5000, Int8Ops: 300, Float32Ops: 30},
			6 * time.Second, false},
		{"a GPU", engine.Ceilings{ReadBytes: 1000},
			engine.Cost{Bytes: 5000, Int8Ops: 300, Float32Ops: 30}, 5 * time.Second, true},
		{"nothing known", engine.Ceilings{}, engine.Cost{Bytes: 5000, Int8Ops: 300}, 0, true},
	} {
		if least, byMemory := c.m.Time(c.cost); least != c.least || byMemory != c.byMemory {
			t.Errorf("%s: %v, by memory %t, expected %v, %t", c.name, least, byMemory, c.least,
				c.byMemory)
		}
	}
}

// TestYardstick: a CPU has all three ceilings, and reads in the way that was found.
func TestYardstick(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds and half a GiB")
	}
	y, err := engine.NewYardstick(engine.Options{Device: engine.DeviceCPU, Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer y.Close()
	if m, err := y.Measure(100 * time.Millisecond); err != nil || m.ReadBytes <= 0 ||
		m.Int8Ops <= 0 || m.Float32Ops <= 0 {
		t.Errorf("CPU: %+v, %v", m, err)
	}
	if y.Bytes() < 512<<20 {
		t.Errorf("it has %d bytes", y.Bytes())
	}
	if _, err := engine.NewYardstick(engine.Options{Device: "abacus"}); err == nil {
		t.Error("no error for a device that does not exist")
	}
}

// TestOperatorTimes: an engine counts its operators while it is asked to.
func TestOperatorTimes(t *testing.T) {
	times := &engine.OperatorTimes{}
	e := openModel(t, engine.Random([]byte(tinyConfig)),
		engine.Options{Device: engine.DeviceCPU, Threads: 1, ContextTokens: 64, Times: times})
	ask := func() {
		s := submit(t, e, engine.Request{Prompt: []int32{1, 2, 3}, MaxTokens: 1, IgnoreEOS: true})
		collect(t, s)
	}
	ask()
	times.Start()
	ask()
	got := times.Stop()
	if a := got["paged_attention"]; a.Runs != 2 || got["linear"].Runs == 0 ||
		got["linear"].Int8 == 0 {
		t.Errorf("one pass of two layers: %+v", got)
	}
}

// TestWriteRandom: the folder is the model that Random makes up, to the bit.
func TestWriteRandom(t *testing.T) {
	answer := func(src engine.Source) []int32 {
		e := openModel(t, src, engine.Options{Device: engine.DeviceCPU, Threads: 1,
			ContextTokens: 64})
		tokens, _, _ := collect(t,
			submit(t, e, engine.Request{Prompt: []int32{1, 2, 3}, MaxTokens: 12, IgnoreEOS: true}))
		return tokens
	}
	for _, config := range []string{tinyConfig,
		strings.Replace(tinyConfig, `"group_size": 64`, `"mode": "mxfp4", "group_size": 32`, 1)} {
		dir := t.TempDir()
		if err := engine.WriteRandom(dir, []byte(config)); err != nil {
			t.Fatal(err)
		}
		if written, made := answer(engine.Source{Dir: dir}),
			answer(engine.Random([]byte(config))); !slices.Equal(written, made) {
			t.Errorf("%s: the folder answers %v, the model in memory %v", config, written, made)
		}
	}
	if err := engine.WriteRandom(t.TempDir(), []byte("{}")); err == nil {
		t.Error("no error for a config without an architecture")
	}
}
