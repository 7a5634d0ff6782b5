package host

import (
	"math"
	"testing"

	"headroom/app/memory"
	"headroom/engine"
)

// TestActiveShare: the share of the parameters that a token reads, worked out by hand.
func TestActiveShare(t *testing.T) {
	for _, c := range []struct {
		name, config string
		parameters   int64
		want         float64
	}{
		{"tied: all of them", `{"tie_word_embeddings": true, "vocab_size": 100, "hidden_size": 10}`,
			10_000, 1},
		{"an output matrix of its own",
			`{"tie_word_embeddings": false, "vocab_size": 100, "hidden_size": 10}`, 10_000, 0.9},
		// 2 of 8 experts: 3 x 10 x 5 x 4 layers x 6 experts = 3,600 values are left out.
		{"experts", `{"num_local_experts": 8, "num_experts_per_tok": 2, "hidden_size": 10,
			"intermediate_size": 5, "num_hidden_layers": 4}`, 7_200, 0.5},
		{"experts, a dense layer, in text_config", `{"tie_word_embeddings": true, "text_config":
			{"n_routed_experts": 8, "num_experts_per_tok": 2, "hidden_size": 10,
			"intermediate_size": 50, "moe_intermediate_size": 5, "num_hidden_layers": 5,
			"first_k_dense_replace": 1}}`, 7_200, 0.5},
		{"a config that contradicts the weights", `{"num_experts": 1000000,
			"num_experts_per_tok": 1, "hidden_size": 10, "moe_intermediate_size": 5,
			"num_hidden_layers": 4}`, 7_200, 0.01},
		{"no JSON", `{`, 7_200, 1},
	} {
		if got := activeShare([]byte(c.config), c.parameters); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestDecodeSpeed: 4 GB of active weights at 100 GB/s, of which decoding reaches three quarters.
func TestDecodeSpeed(t *testing.T) {
	d := engine.Description{Parameters: 1000}
	if got := decodeSpeed([]byte(`{}`), d, 4e9, 100e9); math.Abs(got-18.75) > 1e-9 {
		t.Errorf("%v tokens/s", got)
	}
	if got := decodeSpeed([]byte(`{}`), d, 0, 100e9); got != 0 {
		t.Errorf("without weights: %v", got)
	}
}

// TestJudge: a suggestion's config says what the suggestion says, and 16-bit weights have the size
// that the hub says.
func TestJudge(t *testing.T) {
	h := newTestHost(t)
	for _, one := range h.suggestions.described(h.Host) {
		_, _, room := h.readMemory()
		want := judge(one.Config, one.description, room, memory.BandwidthBytes())
		got, err := h.Judge(one.ID, one.Config, one.DownloadBytes)
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v, want %+v", one.ID, got, err, want)
		}
	}
	config := []byte(`{"model_type": "qwen3", "hidden_size": 1024, "intermediate_size": 3072,
		"num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8,
		"head_dim": 128, "vocab_size": 151936, "rms_norm_eps": 1e-06, "rope_theta": 1000000,
		"max_position_embeddings": 40960, "tie_word_embeddings": true, "torch_dtype": "bfloat16"}`)
	const weights = 1_192_000_000
	got, err := h.Judge("o/whole", config, weights)
	if err != nil || got.Need.WeightsBytes != weights || got.Quantization != "bfloat16" ||
		got.Need.KVBytes == 0 || got.NeedBytes != got.Need.TotalBytes() {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := h.Judge("o/whole", config, 0); err == nil {
		t.Error("weights of unknown size are judged")
	}
	if _, err := h.Judge("o/odd", []byte(`{"model_type": "odd"}`), 1); err == nil {
		t.Error("an unknown architecture is judged")
	}
}
