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
			!strings.Contains(p.Error(), "most similar name is "+want+". Pick another model. "+
				"`headroom models --help` lists") {
			t.Errorf("%.40q: %.300v, expected %s", modelType, p, want)
		}
	}
}

func TestArchitectureOfAnotherFamily(t *testing.T) {
	supported := []string{"gemma2", "gpt_oss", "llama", "ministral3", "phi3", "qwen3", "qwen3_vl"}
	for _, modelType := range []string{"deepseek_v3", "mamba2", "glm4", "rwkv7", "", "minicpm3",
		"minimax_m2", "MiniMax", "gpt2", "gpt_neox", "gptj", "gpt_bigcode"} {
		p := Architecture(modelType, supported)
		if want := `Headroom does not support the architecture "` + modelType + `" yet. Pick ` +
			"another model. `headroom models --help` lists the supported " +
			"architectures."; p.Error() !=
			want {
			t.Errorf("%q: got %q, expected %q", modelType, p, want)
		}
	}
}

func TestArchitectureOfAnotherTask(t *testing.T) {
	for modelType, want := range map[string]string{"whisper": "a speech recognition model",
		"Wav2Vec2-BERT": "a speech recognition model", "kokoro": "a speech synthesis model",
		"bert": "an embedding model or text classifier", "siglip2": "an image model",
		"rt_detr_v2": "an image model", "t5": "an encoder-decoder model",
		"gemma4_assistant": "a draft model for another model", "qwen3_5_mtp": "a draft model for " +
			"another model", "encodec": "a model of sounds"} {
		p := Architecture(modelType, []string{"qwen3_5", "gemma4", "bert_like"})
		if p.Error() != "This is "+want+", not a language model: its model_type is "+modelType+
			". Pick another model: Headroom runs language models, embedding models and "+
			"rerankers." ||
			p.Code != UnknownArchitecture {
			t.Errorf("%q: %v", modelType, p)
		}
	}
	long := strings.Repeat("*[a-", 1<<20)
	if what := otherTask(long); what != "" {
		t.Errorf("a long name is %s", what)
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
