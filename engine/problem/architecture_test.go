package problem

import (
	"strings"
	"testing"
)

func TestArchitectureNamesTheMostSimilar(t *testing.T) {
	supported := []string{"gemma3", "gemma3_text", "gpt_oss", "llama", "mistral", "phi3", "qwen2",
		"qwen3", "qwen3_5", "qwen3_5_moe", "qwen3_moe", "qwen3_next", "qwen3_vl_moe_text"}
	for modelType, want := range map[string]string{
		"gemma3n": "gemma3", "gemma3n_text": "gemma3_text", "phimoe": "phi3", "mllama": "llama",
		"qwen3_6": "qwen3_5", "qwen3_6_moe": "qwen3_5_moe", "qwen2_moe": "qwen3_moe",
		"mistral3_with_a_vision_encoder": "mistral", "llama\xff": "llama",
		strings.Repeat("gpt_", 1<<20): "gpt_oss",
	} {
		p := Architecture(modelType, supported)
		if p.Code != UnknownArchitecture ||
			len(modelType) < 100 && !strings.Contains(p.Message, `"`+modelType+`"`) ||
			!strings.Contains(p.Error(), "most similar name is "+want+";") {
			t.Errorf("%.40q: %.300v, expected %s", modelType, p, want)
		}
	}
}

func TestArchitectureOfAnotherFamily(t *testing.T) {
	supported := []string{"gemma2", "gpt_oss", "llama", "phi3", "qwen3", "qwen3_vl"}
	for _, modelType := range []string{"deepseek_v3", "mamba2", "whisper", "glm4", "t5", ""} {
		p := Architecture(modelType, supported)
		if strings.Contains(p.Error(), "similar") || !strings.Contains(p.Error(), "qwen3_vl") {
			t.Errorf("%q: %v", modelType, p)
		}
	}
}

func TestArchitectureNamesTheNewest(t *testing.T) {
	supported := []string{"mistral3", "gemma2", "gemma3", "gemma4", "mistral", "qwen2", "qwen3",
		"qwen3_vl"}
	for modelType, want := range map[string]string{"gemma5": "gemma4", "mistral4": "mistral3",
		"qwen4": "qwen3", "qwen4_vl": "qwen3_vl", "Qwen3": "qwen3", "QWEN3_VL": "qwen3_vl",
		"mixtral": "mistral"} {
		if got := similar(modelType, supported); got != want {
			t.Errorf("%q: got %q, expected %q", modelType, got, want)
		}
	}
}

// TestDistance compares with distances counted by hand.
func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"kitten", "sitting", 3}, {"ab", "ba", 2},
		{"qwen3", "qwen3_5", 2}} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("from %q to %q: %d, expected %d", c.a, c.b, got, c.want)
		}
	}
}
