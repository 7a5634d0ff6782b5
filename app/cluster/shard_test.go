package cluster

import (
	"strings"
	"testing"

	"headroom/engine/problem"
)

// TestCheckTensor: ranks must divide what mlx-lm divides.
func TestCheckTensor(t *testing.T) {
	const llama = `{"model_type": "llama", "num_attention_heads": 24, "num_key_value_heads": 8,
		"vocab_size": 1001}`
	const hybrid = `{"model_type": "qwen3_5_moe", "text_config": {"num_attention_heads": 16,
		"num_key_value_heads": 2, "linear_num_key_heads": 8, "linear_num_value_heads": 16,
		"vocab_size": 1024, "model_type": "qwen3_5_moe_text"}}`
	for _, c := range []struct {
		config    string
		ranks     int
		want, fix string
	}{
		{llama, 2, "", ""},
		{llama, 8, "", ""},
		{llama, 3, "8 key/value heads", "Use 2, 4 or 8 ranks, or --pipeline"},
		{llama, 16, "24 attention heads", "2, 4 or 8 ranks"},
		{hybrid, 2, "", ""},
		{hybrid, 4, "", ""}, // two ranks have the same head of keys and values
		{hybrid, 3, "16 attention heads", "2, 4 or 8 ranks"},
		{hybrid, 16, "8 key heads of linear attention", "2, 4 or 8 ranks"},
		{strings.Replace(hybrid, "1024", "1022", 1), 4, "1022 tokens in its vocabulary",
			"Use 2 ranks"},
		{`{"model_type": "llama", "num_attention_heads": 9, "num_key_value_heads": 1}`, 3,
			"1 key/value heads", "Use --pipeline."},
		{`{}`, 3, "", ""},
		{`[`, 3, "", ""},
	} {
		err := CheckTensor([]byte(c.config), "m", c.ranks)
		if err == nil && c.want == "" {
			continue
		}
		p := problem.From(err)
		if err == nil || c.want == "" || !strings.Contains(p.Why, c.want) ||
			!strings.Contains(p.Fix, c.fix) {
			t.Errorf("%d ranks, %s: %+v; expected %q and %q", c.ranks, c.config, p, c.want, c.fix)
		}
	}
}
