package engine_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"headroom/engine"
	"headroom/engine/safetensors"
)

// BenchmarkAdapter compares decoding with an adapter of rank 16 on every matrix of the layers with
// decoding without one, in turns. HEADROOM_SHAPE names a file of app/commands/shapes of Qwen3 or
// Llama; the default is qwen3-0.6b.
func BenchmarkAdapter(b *testing.B) {
	shape := "qwen3-0.6b"
	if s := os.Getenv("HEADROOM_SHAPE"); s != "" {
		shape = s
	}
	config, err := os.ReadFile(filepath.Join("..", "app", "commands", "shapes", shape+".json"))
	if err != nil {
		b.Fatal(err)
	}
	a := &engine.Adapter{Name: "random", Dir: randomAdapter(b, config, 16)}
	e := openModel(b, engine.Random(config), engine.Options{Device: engine.DeviceCPU,
		ContextTokens: 1024, MaxSequences: 1})
	const tokens = 24
	decode := func(a *engine.Adapter, seed int32) time.Duration {
		_, _, done := collect(b, submit(b, e, engine.Request{Prompt: []int32{seed, 5, 6, 7},
			MaxTokens: tokens, IgnoreEOS: true, Adapter: a}))
		if done.Err != nil {
			b.Fatal(done.Err)
		}
		return done.Timing.Decode / time.Duration(done.Timing.DecodeSteps)
	}
	decode(nil, 1)
	decode(a, 2)
	var plain, adapted time.Duration = math.MaxInt64, math.MaxInt64
	for i := range int32(max(b.N, 8)) {
		plain, adapted = min(plain, decode(nil, 10+i)), min(adapted, decode(a, 10+i))
	}
	b.ReportMetric(float64(plain.Microseconds()), "plain-µs/token")
	b.ReportMetric(float64(adapted.Microseconds()), "adapted-µs/token")
	b.ReportMetric(float64(adapted)/float64(plain), "ratio")
}

// randomAdapter writes an adapter for every matrix of the layers of a model and returns its folder.
func randomAdapter(b *testing.B, config []byte, rank int) string {
	b.Helper()
	var c struct {
		Hidden       int `json:"hidden_size"`
		Intermediate int `json:"intermediate_size"`
		Layers       int `json:"num_hidden_layers"`
		Heads        int `json:"num_attention_heads"`
		KVHeads      int `json:"num_key_value_heads"`
		HeadDim      int `json:"head_dim"`
	}
	if err := json.Unmarshal(config, &c); err != nil {
		b.Fatal(err)
	}
	q, kv := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	random := rand.New(rand.NewPCG(1, 2))
	var tensors []safetensors.Tensor
	add := func(name string, rows, cols int) {
		data := make([]byte, 0, 4*rows*cols)
		for range rows * cols {
			bits := math.Float32bits(float32(random.NormFloat64() * 0.01))
			data = append(data, byte(bits), byte(bits>>8), byte(bits>>16), byte(bits>>24))
		}
		tensors = append(tensors, safetensors.Tensor{Name: name, DType: safetensors.F32,
			Shape: []int{rows, cols}, Data: data})
	}
	for i := range c.Layers {
		for _, m := range []struct {
			name string
			n, k int
		}{{"self_attn.q_proj", q, c.Hidden}, {"self_attn.k_proj", kv, c.Hidden},
			{"self_attn.v_proj", kv, c.Hidden}, {"self_attn.o_proj", c.Hidden, q},
			{"mlp.gate_proj", c.Intermediate, c.Hidden}, {"mlp.up_proj", c.Intermediate, c.Hidden},
			{"mlp.down_proj", c.Hidden, c.Intermediate}} {
			name := fmt.Sprintf("model.layers.%d.%s", i, m.name)
			add(name+".lora_a", m.k, rank)
			add(name+".lora_b", rank, m.n)
		}
	}
	dir := b.TempDir()
	var out bytes.Buffer
	err := safetensors.Write(&out, tensors, nil)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "adapters.safetensors"), out.Bytes(), 0o600)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "adapter_config.json"),
			[]byte(`{"lora_parameters": {"scale": 2}}`), 0o600)
	}
	if err != nil {
		b.Fatal(err)
	}
	return dir
}
