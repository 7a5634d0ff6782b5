package engine_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"headroom/engine"
	"headroom/engine/safetensors"
)

// TestMeasuredNeedOfAdapter: the memory that a model takes with the adapter with which it is
// started is within 10 % of what it was said to need. The adapter is a quarter of it.
func TestMeasuredNeedOfAdapter(t *testing.T) {
	if testing.Short() {
		t.Skip("the race detector takes memory of its own")
	}
	data, err := os.ReadFile(filepath.Join("..", "app", "commands", "shapes", "qwen3-0.6b.json"))
	var config map[string]any
	if err == nil {
		err = json.Unmarshal(data, &config)
	}
	if err != nil {
		t.Fatal(err)
	}
	const layers, rank = 6, 96
	config["num_hidden_layers"] = layers
	if data, err = json.Marshal(config); err != nil {
		t.Fatal(err)
	}
	dir := writeLoRA(t, layers, rank)
	o := engine.Options{ContextTokens: 512, MaxSequences: 1, KVFormat: "f16", NoPrefixCache: true}
	model := t.TempDir()
	if err := engine.WriteRandom(model, data); err != nil {
		t.Fatal(err)
	}
	alone, err := engine.Describe(engine.Source{Dir: model}, o)
	if err != nil {
		t.Fatal(err)
	}
	o.Adapter = &engine.Adapter{Name: "a", Dir: dir}
	with, err := engine.Describe(engine.Source{Dir: model}, o)
	if err != nil {
		t.Fatal(err)
	}
	before, after := alone.NeedAt(512), with.NeedAt(512)
	if more := after.TotalBytes() - before.TotalBytes(); more != engine.AdapterBytes(dir) ||
		more < after.TotalBytes()/5 {
		t.Fatalf("the adapter adds %d bytes to %d, and has %d", more, before.TotalBytes(),
			engine.AdapterBytes(dir))
	}
	measureNeed(t, "an adapter", data, o)
}

// writeLoRA writes an adapter of all matrices in the layers of Qwen3 0.6B, and returns its folder.
func writeLoRA(t *testing.T, layers, rank int) string {
	var tensors []safetensors.Tensor
	add := func(name string, rows, cols int) {
		tensors = append(tensors, safetensors.Tensor{Name: name, DType: safetensors.F32,
			Shape: []int{rows, cols}, Data: make([]byte, 4*rows*cols)})
	}
	for i := range layers {
		for name, shape := range map[string][2]int{"self_attn.q_proj": {2048, 1024},
			"self_attn.k_proj": {1024, 1024}, "self_attn.v_proj": {1024, 1024},
			"self_attn.o_proj": {1024, 2048}, "mlp.gate_proj": {3072, 1024},
			"mlp.up_proj": {3072, 1024}, "mlp.down_proj": {1024, 3072}} {
			module := fmt.Sprintf("model.layers.%d.%s", i, name)
			add(module+".lora_a", shape[1], rank)
			add(module+".lora_b", rank, shape[0])
		}
	}
	dir := t.TempDir()
	var file bytes.Buffer
	if err := safetensors.Write(&file, tensors, nil); err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"adapters.safetensors": file.Bytes(),
		"adapter_config.json": []byte(fmt.Sprintf(`{"lora_parameters": {"rank": %d, "scale": 1}}`,
			rank))} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
