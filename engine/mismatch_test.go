package engine_test

import (
	"encoding/json"
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
