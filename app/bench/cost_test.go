package bench

import (
	"testing"
	"time"

	"headroom/engine"
)

// tinyConfig has 2 layers of 49,152 parameters and a head of 16,384, all in 4 bits, with a 16-bit
// scale and a 16-bit bias per group of 64.
const tinyConfig = `{"model_type": "qwen3", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
	"num_key_value_heads": 2, "head_dim": 32, "vocab_size": 256, "rms_norm_eps": 1e-6, "rope_theta": 1e6, "max_position_embeddings": 4096,
	"tie_word_embeddings": true, "attention_bias": false, "hidden_act": "silu", "quantization": {"group_size": 64, "bits": 4}}`

func openTiny(t *testing.T, o engine.Options) *engine.Engine {
	t.Helper()
	e, err := engine.Open(t.Context(), engine.Random([]byte(tinyConfig)), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// TestCost compares costs with values worked out by hand.
func TestCost(t *testing.T) {
	const (
		layers, head = 2 * 49152, 16384
		weights      = (layers + head) * 9 / 16 // bytes
		// bytes of a position: layers, heads, dimensions, keys and values in 16 bits
		kv = 2 * 2 * 32 * (2 + 2)
		// operations for a position: layers, products, multiply-add, width of the queries
		attention = 2 * 2 * 2 * 128
	)
	e := openTiny(t,
		engine.Options{Device: engine.DeviceCPU, Threads: 1, KVFormat: "f16", ChunkTokens: 2,
			ContextTokens: 64})
	for _, c := range []struct {
		name      string
		got, want Cost
	}{
		{"a token after ten", DecodeCost(e, 1, 10),
			Cost{Bytes: weights + 11*kv, Int8Ops: 2 * (layers + head),
				Float32Ops: 11 * attention}},
		{"one token in each of three sequences", DecodeCost(e, 3, 10),
			Cost{Bytes: weights + 3*11*kv, Int8Ops: 3 * 2 * (layers + head),
				Float32Ops: 3 * 11 * attention}},
		// Passes of two tokens and one. The first pass reads no head. Each row attends to itself
		// and all rows before it.
		{"a prompt", PromptCost(e, 2, 0, 3),
			Cost{Bytes: 2*weights - head*9/16 + (2+3)*kv, Int8Ops: 2 * (3*layers + head),
				Float32Ops: (1 + 2 + 3) * attention}},
		{"the prompt's last token", PromptCost(e, 2, 2, 3),
			Cost{Bytes: weights + 3*kv, Int8Ops: 2 * (layers + head),
				Float32Ops: 3 * attention}},
		{"an empty prompt", PromptCost(e, 2, 3, 3), Cost{}},
	} {
		if c.got != c.want {
			t.Errorf("%s: %+v, expected %+v", c.name, c.got, c.want)
		}
	}
	exact := openTiny(t,
		engine.Options{Device: engine.DeviceCPU, Threads: 1, KVFormat: "f16", ContextTokens: 64,
			Float32Activations: true})
	want := Cost{Bytes: weights + 11*kv, Float32Ops: 2*(layers+head) + 11*attention}
	if got := DecodeCost(exact, 1, 10); got != want {
		t.Errorf("float32 activations: %+v, expected %+v", got, want)
	}
}

// TestCeilings: the longer of memory time and arithmetic time counts. An unknown ceiling adds no
// time.
func TestCeilings(t *testing.T) {
	m := Ceilings{ReadBytes: 1000, Int8Ops: 100, Float32Ops: 10}
	for _, c := range []struct {
		name        string
		m           Ceilings
		cost        Cost
		least       time.Duration
		memoryBound bool
	}{
		{"memory", m, Cost{Bytes: 5000, Int8Ops: 300, Float32Ops: 10}, 5 * time.Second,
			true},
		{"arithmetic of both kinds", m, Cost{Bytes: 5000, Int8Ops: 300, Float32Ops: 30},
			6 * time.Second, false},
		{"a GPU", Ceilings{ReadBytes: 1000},
			Cost{Bytes: 5000, Int8Ops: 300, Float32Ops: 30}, 5 * time.Second, true},
		{"no ceilings", Ceilings{}, Cost{Bytes: 5000, Int8Ops: 300}, 0, true},
	} {
		if least, memoryBound := c.m.Time(c.cost); least != c.least ||
			memoryBound != c.memoryBound {
			t.Errorf("%s: %v, by memory %t, expected %v, %t", c.name, least, memoryBound, c.least,
				c.memoryBound)
		}
	}
}

// TestYardstick: a Yardstick measures all three ceilings of a CPU.
func TestYardstick(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds and half a GiB")
	}
	y, err := NewYardstick(engine.DeviceCPU, 2)
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
	if _, err := NewYardstick("abacus", 0); err == nil {
		t.Error("no error for a device that does not exist")
	}
}
