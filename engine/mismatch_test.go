package engine_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headroom/engine"
)

// TestTokenizerBeyondModel: a token of the tokenizer that the model lacks is a fault of the files,
// not of the request; another one is the request's.
func TestTokenizerBeyondModel(t *testing.T) {
	e := openModel(t, tinySource(t, "qwen3"), engine.Options{ContextTokens: 512}) // 320 tokens
	for token, want := range map[int32]string{
		1000:  "The model's tokenizer has more tokens than the model: its token 1000 is ",
		90000: "The prompt contains a token that the model does not have: token 90000",
	} {
		_, err := e.Submit(engine.Request{Prompt: []int32{1, token}, MaxTokens: 1})
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("token %d: got %v, expected %q", token, err, want)
		}
	}
}

// TestStrayQuantization: the description has the packing of the weights, and not one of config.json
// that none of them has, or only few.
func TestStrayQuantization(t *testing.T) {
	for _, c := range []struct{ model, keys, want string }{
		{"qwen3", `"quantization": {"bits": 4, "group_size": 64}`, "not quantized"},
		{"qwen3", `"quantization_config": {"quant_method": "gptq", "bits": 4}`, "not quantized"},
		{"qwen3", `"quantization_config": {"quant_method": "mxfp4"}`, "not quantized"},
		{"qwen3_gptq", "", "4-bit, group 32 (GPTQ)"},
		{"llama_awq", "", "4-bit, group 64 (AWQ)"},
		{"llama_compressed", "", "4-bit, group 32 (compressed-tensors)"},
		{"gpt_oss_mxfp4", "", "mxfp4"},
		{"qwen3_moe_nvfp4", "", "nvfp4"},
		{"llama_fp8", "", "fp8"},
	} {
		src := tinySource(t, c.model)
		path := filepath.Join(src.Dir, "config.json")
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		keys := map[string]json.RawMessage{}
		for _, text := range []string{string(data), "{" + c.keys + "}"} {
			if err := json.Unmarshal([]byte(text), &keys); err != nil {
				t.Fatal(err)
			}
		}
		if data, err = json.Marshal(keys); err == nil {
			err = os.WriteFile(path, data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		d, err := engine.Describe(src, engine.Options{})
		if err != nil || d.Quantization != c.want {
			t.Errorf("%s with %s: %q, %v, expected %q", c.model, c.keys, d.Quantization, err,
				c.want)
		}
	}
}

// TestFewerLayersThanAnEncoderHas: so is an encoder refused whose config.json has too few layers.
func TestFewerLayersThanAnEncoderHas(t *testing.T) {
	for _, name := range []string{"bert", "modernbert", "xlm_roberta"} {
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS(filepath.Join(vectorModels, name))); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, "config.json")
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var keys map[string]any
		if err := json.Unmarshal(data, &keys); err != nil {
			t.Fatal(err)
		}
		layers := int(keys["num_hidden_layers"].(float64))
		keys["num_hidden_layers"] = layers - 1
		delete(keys, "layer_types")
		if data, err = json.Marshal(keys); err == nil {
			err = os.WriteFile(path, data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		_, err = engine.Describe(engine.Source{Dir: dir}, engine.Options{})
		want := fmt.Sprintf("num_hidden_layers is %d, but the weights have %d layers", layers-1,
			layers)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, expected %q", name, err, want)
		}
	}
}

// TestPackedWithoutQuantization: the description of a model whose config.json does not say how its
// weights are packed has what the tensors are.
func TestPackedWithoutQuantization(t *testing.T) {
	for name, want := range map[string]string{"deepseek_v3": "4-bit, group 64",
		"qwen3_mxfp4": "mxfp4", "llama_fp8": "fp8", "qwen3": "not quantized"} {
		src := tinySource(t, name)
		path := filepath.Join(src.Dir, "config.json")
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var keys map[string]any
		if err := json.Unmarshal(data, &keys); err != nil {
			t.Fatal(err)
		}
		delete(keys, "quantization")
		delete(keys, "quantization_config")
		if data, err = json.Marshal(keys); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		d, err := engine.Describe(src, engine.Options{})
		if err != nil || d.Quantization != want {
			t.Errorf("%s: %q, %v, expected %q", name, d.Quantization, err, want)
		}
	}
}
