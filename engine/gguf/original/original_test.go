package original_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"headroom/engine/gguf"
	"headroom/engine/gguf/gguftest"
	"headroom/engine/gguf/original"
	"headroom/engine/problem"
)

const (
	hidden, dim = 8, 4
	vocabulary  = 3
)

// keys returns the metadata of an architecture, with more keys of its own.
func keys(name string, more ...any) gguftest.Metadata {
	m := gguftest.Metadata{"general.architecture", name,
		"tokenizer.ggml.model", "gpt2", "tokenizer.ggml.pre", "qwen2",
		"tokenizer.ggml.tokens", []string{"a", "<|im_end|>", "<end>"},
		"tokenizer.ggml.token_type", []int32{1, 3, 3}, "tokenizer.ggml.eos_token_id", 2}
	given := map[string]bool{}
	for i := 0; i < len(more); i += 2 {
		given[more[i].(string)] = true
	}
	for _, pair := range [][2]any{{"block_count", 1}, {"context_length", 64},
		{"embedding_length", hidden}, {"feed_forward_length", 16}, {"attention.head_count", 2},
		{"attention.head_count_kv", 1}, {"attention.layer_norm_rms_epsilon", float32(1e-5)},
		{"rope.dimension_count", dim}} {
		if !given[pair[0].(string)] {
			more = append(more, pair[:]...)
		}
	}
	for i := 0; i < len(more); i += 2 {
		key := more[i].(string)
		if !strings.Contains(key, "general.") && !strings.HasPrefix(key, "tokenizer.") &&
			!strings.HasPrefix(key, "split.") {
			key = name + "." + key
		}
		m = append(m, key, more[i+1])
	}
	return m
}

// floats returns a float32 tensor of numbers 1, 2, 3 and so on.
func floats(name string, shape ...int) gguftest.Tensor {
	n := 1
	for _, d := range shape {
		n *= d
	}
	data := make([]byte, 0, 4*n)
	for i := range n {
		b := gguftest.Float32(float32(i + 1))
		data = append(data, b[:]...)
	}
	return gguftest.Of(name, gguf.F32, data, shape...)
}

func embedding() gguftest.Tensor { return floats("token_embd.weight", vocabulary, hidden) }

func open(t *testing.T, m gguftest.Metadata, tensors ...gguftest.Tensor) (*original.Model, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "m.gguf")
	gguftest.Write(t, path, m, tensors)
	model, err := original.Open(path)
	if err == nil {
		t.Cleanup(func() { _ = model.File.Close() })
	}
	return model, err
}

// TestConfig checks config.json of architectures. Each row has what is special about it.
func TestConfig(t *testing.T) {
	base := map[string]any{"vocab_size": 3.0, "hidden_size": 8.0, "num_hidden_layers": 1.0,
		"intermediate_size": 16.0, "num_attention_heads": 2.0, "num_key_value_heads": 1.0,
		"head_dim": 4.0, "max_position_embeddings": 64.0, "rms_norm_eps": 1e-5,
		"tie_word_embeddings": true, "attention_bias": false, "rope_theta": 10000.0}
	for _, c := range []struct {
		name string
		keys []any
		want map[string]any
	}{
		{"qwen3", []any{"rope.freq_base", float32(1e6)},
			map[string]any{"model_type": "qwen3", "rope_theta": 1e6, "hidden_act": "silu"}},
		{"qwen2", []any{"rope.scaling.type", "yarn", "rope.scaling.factor", float32(4),
			"rope.scaling.original_context_length", 32},
			map[string]any{"model_type": "qwen2", "rope_scaling": map[string]any{"type": "yarn",
				"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32.0}}},
		{"llama", nil, map[string]any{"model_type": "llama", "mlp_bias": false}},
		{"llama", []any{"expert_count", 8, "expert_used_count", 2},
			map[string]any{"model_type": "mixtral", "num_local_experts": 8.0,
				"num_experts_per_tok": 2.0}},
		{"llama", []any{"rope.scaling.type", "linear", "rope.scaling.factor", float32(2)},
			map[string]any{"rope_scaling": map[string]any{"type": "linear",
				"rope_type": "linear", "factor": 2.0}}},
		{"qwen3moe", []any{"expert_count", 8, "expert_used_count", 2,
			"expert_feed_forward_length", 4}, map[string]any{"model_type": "qwen3_moe",
			"num_experts": 8.0, "num_experts_per_tok": 2.0, "moe_intermediate_size": 4.0,
			"norm_topk_prob": true}},
		{"gemma2", []any{"attn_logit_softcapping", float32(50), "attention.sliding_window", 16},
			map[string]any{"attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0,
				"sliding_window": 16.0, "query_pre_attn_scalar": 4.0}},
		{"gemma2", []any{"block_count", 46, "attention.key_length", 2,
			"rope.dimension_count", 2}, map[string]any{"query_pre_attn_scalar": 4.0,
			"head_dim": 2.0, "num_hidden_layers": 46.0}}, // 27B: width / heads
		{"gemma3", []any{"attention.sliding_window", 16}, map[string]any{
			"model_type": "gemma3_text", "sliding_window_pattern": 6.0, "rope_theta": 1e6,
			"rope_local_base_freq": 10000.0}},
		{"phi3", []any{"rope.dimension_count", 2, "attention.sliding_window", 16},
			map[string]any{"partial_rotary_factor": 0.5, "sliding_window": 16.0}},
		{"granite", []any{"attention.scale", float32(0.1), "logit_scale", float32(8)},
			map[string]any{"attention_multiplier": 0.1, "logits_scaling": 8.0,
				"residual_multiplier": 1.0}},
		{"smollm3", nil, map[string]any{"no_rope_layer_interval": 4.0}},
		{"qwen35", deltaKeys("rope.dimension_count", 2, "rope.dimension_sections",
			[]int32{1, 0, 0, 0}, "block_count", 3, "nextn_predict_layers", 1),
			map[string]any{"model_type": "qwen3_5", "num_hidden_layers": 2.0, "rope_theta": nil,
				"linear_num_key_heads": 2.0, "linear_num_value_heads": 6.0,
				"linear_key_head_dim": 4.0, "linear_value_head_dim": 2.0,
				"linear_conv_kernel_dim": 4.0, "full_attention_interval": 4.0,
				"rope_parameters": map[string]any{"rope_type": "default", "rope_theta": 1e4,
					"partial_rotary_factor": 0.5, "mrope_section": []any{1.0, 0.0, 0.0}}}},
		{"qwen3next", deltaKeys("feed_forward_length", 0, "expert_feed_forward_length", 6,
			"expert_count", 8, "expert_used_count", 2),
			map[string]any{"model_type": "qwen3_5_moe", "num_experts": 8.0, "rope_theta": nil,
				"norm_topk_prob": true, "intermediate_size": 6.0,
				"rope_parameters": map[string]any{"rope_type": "default",
					"rope_theta": 1e4, "partial_rotary_factor": 1.0}}},
		{"gpt-oss", []any{"attention.sliding_window", 8, "expert_count", 4, "expert_used_count",
			2, "expert_feed_forward_length", 12, "block_count", 3, "rope.scaling.type", "yarn",
			"rope.scaling.factor", float32(32), "rope.scaling.original_context_length", 16,
			"rope.scaling.attn_factor", float32(1), "rope.scaling.yarn_beta_fast", float32(32),
			"rope.scaling.yarn_beta_slow", float32(1)},
			map[string]any{"model_type": "gpt_oss", "num_hidden_layers": 3.0, "swiglu_limit": 7.0,
				"intermediate_size": 12.0, "num_local_experts": 4.0, "sliding_window": 8.0,
				"layer_types": []any{"sliding_attention", "full_attention",
					"sliding_attention"}, "rope_scaling": map[string]any{"type": "yarn",
					"rope_type": "yarn", "factor": 32.0, "truncate": false,
					"attention_factor": 1.0, "beta_fast": 32.0, "beta_slow": 1.0,
					"original_max_position_embeddings": 16.0}}},
		{"deepseek2", latentKeys("rope.scaling.type", "yarn", "rope.scaling.factor", float32(40),
			"rope.scaling.original_context_length", 16,
			"rope.scaling.yarn_log_multiplier", float32(0.0707)),
			map[string]any{"model_type": "deepseek_v2", "head_dim": nil, "kv_lora_rank": 16.0,
				"q_lora_rank": nil, "qk_nope_head_dim": 6.0, "qk_rope_head_dim": 4.0,
				"v_head_dim": 5.0, "num_key_value_heads": 2.0, "topk_method": "greedy",
				"n_group": 1.0, "routed_scaling_factor": 1.0, "norm_topk_prob": false,
				"rope_scaling": map[string]any{"type": "yarn", "rope_type": "yarn",
					"factor": 40.0, "original_max_position_embeddings": 16.0, "mscale": 0.707,
					"mscale_all_dim": 0.707}}},
	} {
		m, err := open(t, keys(c.name, c.keys...), embedding())
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		data, err := m.ReadFile("config.json")
		var got map[string]any
		if err == nil {
			err = json.Unmarshal(data, &got)
		}
		if err != nil {
			t.Fatal(err)
		}
		checkNumbers(t, c.name, data)
		for key, value := range base {
			if _, special := c.want[key]; !special {
				c.want[key] = value
			}
		}
		for key, want := range c.want {
			if !reflect.DeepEqual(got[key], want) {
				t.Errorf("%s: %s is %v, expected %v", c.name, key, got[key], want)
			}
		}
	}
}

// floatKeys are the keys whose numbers are floats in transformers' configs; those of all others are
// integers. transformers refuses an integer where it expects a float, and the reverse.
var floatKeys = strings.Fields("rms_norm_eps rope_theta rope_local_base_freq factor mscale " +
	"mscale_all_dim attention_factor beta_fast beta_slow low_freq_factor high_freq_factor " +
	"long_factor short_factor partial_rotary_factor attn_logit_softcapping swiglu_limit " +
	"final_logit_softcapping attention_multiplier embedding_multiplier residual_multiplier " +
	"logits_scaling routed_scaling_factor temperature top_p min_p")

// checkNumbers checks that the floats of a JSON file have a point or an exponent, and its integers
// have none.
func checkNumbers(t *testing.T, name string, data []byte) {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var all map[string]any
	if err := decoder.Decode(&all); err != nil {
		t.Fatal(err)
	}
	var check func(key string, value any)
	check = func(key string, value any) {
		switch value := value.(type) {
		case map[string]any:
			for key, inner := range value {
				check(key, inner)
			}
		case []any:
			for _, inner := range value {
				check(key, inner)
			}
		case json.Number:
			isFloat := strings.ContainsAny(value.String(), ".e")
			if want := slices.Contains(floatKeys, key); isFloat != want {
				t.Errorf("%s: %s is %s, and a float: %t, expected %t", name, key, value, isFloat,
					want)
			}
		}
	}
	check("", all)
}

// TestFactors: the factors of Phi 3 are floats, too.
func TestFactors(t *testing.T) {
	m, err := open(t, keys("phi3"), embedding(), floats("rope_factors_long.weight", 2),
		floats("rope_factors_short.weight", 2))
	if err != nil {
		t.Fatal(err)
	}
	data, err := m.ReadFile("config.json")
	if err != nil {
		t.Fatal(err)
	}
	checkNumbers(t, "phi3", data)
	var got struct {
		Scaling struct {
			Long []float64 `json:"long_factor"`
		} `json:"rope_scaling"`
	}
	if err := json.Unmarshal(data, &got); err != nil ||
		!slices.Equal(got.Scaling.Long, []float64{1, 2}) {
		t.Errorf("long_factor is %v, %v", got.Scaling.Long, err)
	}
}

// deltaKeys returns keys of GatedDeltaNet with two key heads of 4 and six value heads of 2.
func deltaKeys(more ...any) []any {
	return append([]any{"ssm.group_count", 2, "ssm.time_step_rank", 6, "ssm.state_size", 4,
		"ssm.inner_size", 12, "ssm.conv_kernel", 4}, more...)
}

// latentKeys returns keys of latent attention.
func latentKeys(more ...any) []any {
	return append([]any{"attention.kv_lora_rank", 16, "attention.key_length", 20,
		"attention.value_length", 16, "attention.key_length_mla", 10,
		"attention.value_length_mla", 5, "expert_count", 4, "expert_used_count", 2,
		"expert_feed_forward_length", 6, "expert_gating_func", 1}, more...)
}

// TestDeltaNet checks the order of the value heads, worked out by hand. The file has those of key
// heads 0 and 1 in turn: 0, 3, 1, 4, 2, 5.
func TestDeltaNet(t *testing.T) {
	m, err := open(t, keys("qwen35", deltaKeys()...), embedding(),
		floats("blk.0.attn_qkv.weight", 28, hidden), floats("blk.0.ssm_out.weight", hidden, 12),
		floats("blk.0.ssm_beta.weight", 6, hidden), floats("blk.0.ssm_dt.bias", 6),
		floats("blk.0.ssm_conv1d.weight", 28, 4))
	if err != nil {
		t.Fatal(err)
	}
	first := func(of func(int) int, from, n int) (all []int) {
		for i := range n {
			all = append(all, of(from+i))
		}
		return all
	}
	heads := []int{0, 2, 4, 1, 3, 5}
	values := []int{0, 1, 4, 5, 8, 9, 2, 3, 6, 7, 10, 11}
	for i := range m.Tensors {
		one := &m.Tensors[i]
		var got, want []int
		switch one.Name {
		case "model.layers.0.linear_attn.in_proj_b.weight", "model.layers.0.linear_attn.dt_bias":
			got, want = first(one.Row, 0, 6), heads
		case "model.layers.0.linear_attn.in_proj_qkv.weight",
			"model.layers.0.linear_attn.conv1d.weight":
			got = first(one.Row, 16, 12)
			for _, v := range values {
				want = append(want, 16+v)
			}
			if one.Row(15) != 15 {
				t.Errorf("%s moves row 15", one.Name)
			}
		case "model.layers.0.linear_attn.out_proj.weight":
			got, want = first(one.Column, 0, 12), values
			if one.Run() != 2 || one.Permuted() {
				t.Errorf("%s moves columns in runs of %d", one.Name, one.Run())
			}
		case "model.embed_tokens.weight":
		default:
			t.Errorf("there is a tensor %s", one.Name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s has %v, expected %v", one.Name, got, want)
		}
	}
}

// TestNextDeltaNet checks the rows of tensors that have several outputs of a key head, worked out
// by hand: b of three value heads, then a; and q, k, v, z of 4, 4, 6 and 6 rows.
func TestNextDeltaNet(t *testing.T) {
	m, err := open(t, keys("qwen3next", deltaKeys("expert_count", 2, "expert_used_count", 1)...),
		embedding(), floats("blk.0.ssm_ba.weight", 12, hidden),
		floats("blk.0.ssm_in.weight", 40, hidden),
		floats("blk.0.ffn_gate_up_exps.weight", 2, 6, hidden))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]int{
		"linear_attn.in_proj_b.weight": {0, 1, 2, 6, 7, 8},
		"linear_attn.in_proj_a.weight": {3, 4, 5, 9, 10, 11},
		"linear_attn.in_proj_z.weight": {14, 15, 16, 17, 18, 19, 34, 35, 36, 37, 38, 39},
		"linear_attn.in_proj_qkv.weight": {0, 1, 2, 3, 20, 21, 22, 23, 4, 5, 6, 7, 24, 25, 26, 27,
			8, 9, 10, 11, 12, 13, 28, 29, 30, 31, 32, 33},
		"mlp.switch_mlp.gate_proj.weight": {0, 1, 2, 6, 7, 8},
		"mlp.switch_mlp.up_proj.weight":   {3, 4, 5, 9, 10, 11},
	}
	for i := range m.Tensors {
		one := &m.Tensors[i]
		name := strings.TrimPrefix(one.Name, "model.layers.0.")
		var got []int
		for row := range len(want[name]) {
			got = append(got, one.Row(row))
		}
		if n := one.Shape[0]; !slices.Equal(got, want[name]) ||
			n != len(got) && len(one.Shape) == 2 && got != nil {
			t.Errorf("%s has the rows %v of %d, expected %v", name, got, n, want[name])
		}
		delete(want, name)
	}
	if len(want) > 0 {
		t.Errorf("there is no tensor of %v", want)
	}
}

// TestDeltaDimensions: a vector in place of a matrix is refused, although it has as many elements
// as the matrix has rows.
func TestDeltaDimensions(t *testing.T) {
	for part, n := range map[string]int{"ssm_ba": 12, "ssm_in": 40} {
		_, err := open(t, keys("qwen3next", deltaKeys("expert_count", 2, "expert_used_count",
			1)...), embedding(), floats("blk.0."+part+".weight", n))
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%s: %v", part, err)
		}
	}
}

// TestDecay checks that A_log is met exactly if it is a bfloat16, and nearly if it is not.
func TestDecay(t *testing.T) {
	for _, want := range []float32{-0.6875, 0, 1.5, 2.078125, 2.0794415} {
		x := float32(-math.Exp(float64(want)))
		data := gguftest.Float32(x)
		m, err := open(t, keys("qwen35", "ssm.group_count", 1, "ssm.time_step_rank", 1,
			"ssm.state_size", 4, "ssm.inner_size", 4, "ssm.conv_kernel", 4), embedding(),
			gguftest.Of("blk.0.ssm_a", gguf.F32, data[:], 1))
		if err != nil {
			t.Fatal(err)
		}
		got := []float32{x}
		for i := range m.Tensors {
			if strings.HasSuffix(m.Tensors[i].Name, "A_log") {
				m.Tensors[i].Change(got)
			}
		}
		if d := math.Abs(float64(got[0] - want)); d > 2.4e-7 || want != 2.0794415 && d != 0 {
			t.Errorf("A_log of %g is %g, expected %g", x, got[0], want)
		}
	}
}

// TestBlocksOfDrafts checks that blocks after the last layer have names that conversions leave out.
func TestBlocksOfDrafts(t *testing.T) {
	for name, want := range map[string]string{"qwen35": "mtp.layers.1.nextn.eh_proj.weight",
		"deepseek2": "model.layers.1.nextn.eh_proj.weight"} {
		more := []any{"block_count", 2, "nextn_predict_layers", 1}
		more = map[string]func(...any) []any{"qwen35": deltaKeys,
			"deepseek2": latentKeys}[name](more...)
		m, err := open(t, keys(name, more...), embedding(),
			floats("blk.1.nextn.eh_proj.weight", hidden, 2*hidden))
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Tensors[len(m.Tensors)-1].Name; got != want {
			t.Errorf("%s: the block has %s, expected %s", name, got, want)
		}
	}
}

// TestTensors checks the names of tensors, and the order of rows. A head has 4 rows: the file has
// the first of the first half, the first of the second half, and so on.
func TestTensors(t *testing.T) {
	m, err := open(t, keys("llama"), embedding(), floats("blk.0.attn_q.weight", 8, hidden),
		floats("blk.0.attn_v.weight", 4, hidden), floats("blk.0.ffn_norm.weight", hidden),
		floats("output.weight", vocabulary, hidden))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range m.Tensors {
		tensor := &m.Tensors[i]
		names = append(names, tensor.Name)
		var order []int
		for row := range tensor.Shape[0] {
			order = append(order, tensor.Row(row))
		}
		want := []int{0, 1, 2, 3, 4, 5, 6, 7}[:len(order)]
		if strings.Contains(tensor.Name, "q_proj") {
			want = []int{0, 2, 1, 3, 4, 6, 5, 7}
		}
		if !reflect.DeepEqual(order, want) {
			t.Errorf("%s has the rows %v, expected %v", tensor.Name, order, want)
		}
	}
	want := "lm_head.weight model.embed_tokens.weight " +
		"model.layers.0.post_attention_layernorm.weight model.layers.0.self_attn.q_proj.weight " +
		"model.layers.0.self_attn.v_proj.weight"
	if strings.Join(names, " ") != want {
		t.Errorf("the tensors are %v", names)
	}
	m, err = open(t, keys("gemma2"), embedding(), floats("blk.0.ffn_norm.weight", hidden))
	if err != nil {
		t.Fatal(err)
	}
	if one := m.Tensors[1]; one.Name != "model.layers.0.pre_feedforward_layernorm.weight" ||
		one.Add != -1 || m.Tensors[0].Add != 0 {
		t.Errorf("Gemma has %+v", one)
	}
}

// TestLlama3 recovers the scaling of Llama 3 from its factors, and refuses others.
func TestLlama3(t *testing.T) {
	factors := func(second float32) gguftest.Tensor {
		a, b := gguftest.Float32(1), gguftest.Float32(second)
		return gguftest.Of("rope_freqs.weight", gguf.F32, append(a[:], b[:]...), 2)
	}
	// With a theta of 1e12, the second frequency has a length of 2 pi 1e6: it is low.
	m, err := open(t, keys("llama", "rope.freq_base", float32(1e12)), embedding(), factors(32))
	if err != nil {
		t.Fatal(err)
	}
	data, _ := m.ReadFile("config.json")
	checkNumbers(t, "llama3", data)
	for _, want := range []string{`"rope_type": "llama3"`, `"factor": 32.0`,
		`"high_freq_factor": 4.0`, `"original_max_position_embeddings": 8192`} {
		if !strings.Contains(string(data), want) {
			t.Errorf("config.json lacks %s", want)
		}
	}
	if len(m.Tensors) != 1 {
		t.Errorf("the factors are a tensor: %v", m.Tensors)
	}
	// With the usual theta, it is high, and its factor must be 1.
	if _, err := open(t, keys("llama"), embedding(), factors(32)); err == nil ||
		!strings.Contains(err.Error(), "number 1 of rope_freqs.weight is 32, and 1 in") {
		t.Errorf("other factors: %v", err)
	}
}

// TestTexts checks the chat template, the special tokens, and the tokens that end an answer.
func TestTexts(t *testing.T) {
	m, err := open(t, keys("qwen3", "tokenizer.chat_template", "{{ messages }}",
		"general.sampling.temp", float32(0.6), "general.sampling.top_k", 20,
		"general.sampling.top_p", float32(1)), embedding())
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"chat_template.jinja": "{{ messages }}",
		"tokenizer_config.json": `"eos_token": "<end>"`, "tokenizer.json": `"<|im_end|>"`} {
		data, err := m.ReadFile(name)
		if err != nil || !strings.Contains(string(data), want) {
			t.Errorf("%s lacks %s: %s, %v", name, want, data, err)
		}
	}
	data, err := m.ReadFile("generation_config.json")
	checkNumbers(t, "generation_config.json", data)
	var got struct {
		End         []int   `json:"eos_token_id"`
		Temperature float64 `json:"temperature"`
		TopK        int     `json:"top_k"`
	}
	if err == nil {
		err = json.Unmarshal(data, &got)
	}
	if err != nil || !reflect.DeepEqual(got.End, []int{2, 1}) || got.Temperature != 0.6 ||
		got.TopK != 20 {
		t.Errorf("generation_config.json has %+v, %v", got, err)
	}
	if _, err := m.ReadFile("README.md"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	m, err = open(t, keys("qwen3", "tokenizer.chat_template", "x",
		"tokenizer.chat_templates", []string{"tool_use"},
		"tokenizer.chat_template.tool_use", "y"), embedding())
	if err != nil {
		t.Fatal(err)
	}
	data, err = m.ReadFile("tokenizer_config.json")
	if err != nil || !strings.Contains(string(data), `"tool_use"`) {
		t.Errorf("tokenizer_config.json is %s, %v", data, err)
	}
}

// replaced returns m with another value of a key.
func replaced(m gguftest.Metadata, key string, value any) gguftest.Metadata {
	m = slices.Clone(m)
	m[slices.Index(m, any(key))+1] = value
	return m
}

// FuzzOpen opens damaged files. What is accepted has files that can be parsed.
func FuzzOpen(f *testing.F) {
	f.Add(gguftest.File(keys("qwen3"), []gguftest.Tensor{embedding()}))
	f.Add(gguftest.File(keys("llama", "rope.scaling.type", "linear"),
		[]gguftest.Tensor{embedding(), floats("blk.0.attn_k.weight", 4, hidden)}))
	f.Add(gguftest.File(keys("qwen35", deltaKeys()...), []gguftest.Tensor{embedding(),
		floats("blk.0.attn_qkv.weight", 28, hidden), floats("blk.0.ssm_a", 6),
		floats("blk.0.ssm_out.weight", hidden, 12)}))
	f.Add(gguftest.File(keys("deepseek2", latentKeys()...), []gguftest.Tensor{embedding(),
		floats("blk.0.attn_k_b.weight", 2, 16, 6)}))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<16 {
			return
		}
		path := filepath.Join(t.TempDir(), "m.gguf")
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		m, err := original.Open(path)
		if err != nil {
			return
		}
		defer m.File.Close()
		for _, name := range []string{"config.json", "tokenizer.json", "tokenizer_config.json",
			"generation_config.json"} {
			text, err := m.ReadFile(name)
			if err != nil || !json.Valid(text) {
				t.Errorf("%s is %q, %v", name, text, err)
			}
		}
		for i := range m.Tensors {
			m.Tensors[i].Row(0)
			m.Tensors[i].Column(0)
		}
	})
}

// TestRefuses opens files that cannot be converted. Each error says why.
func TestRefuses(t *testing.T) {
	block := gguftest.Of("blk.0.attn_q.weight", 16, make([]byte, 66), 1, 256)
	for _, c := range []struct {
		want    string
		keys    gguftest.Metadata
		tensors []gguftest.Tensor
	}{
		{"it converts deepseek2, gemma,", keys("rwkv"), nil},
		{"is in a layer of full attention", keys("qwen35", deltaKeys("block_count", 4)...),
			[]gguftest.Tensor{embedding(), floats("blk.3.attn_qkv.weight", 28, hidden)}},
		{"has the shape [27 8], which is not that of 2 key heads of 4 and 6 value heads of 2",
			keys("qwen35", deltaKeys()...), []gguftest.Tensor{embedding(),
				floats("blk.0.attn_qkv.weight", 27, hidden)}},
		{"6 value heads have 13 elements for 2 key heads", keys("qwen35",
			"ssm.group_count", 2, "ssm.time_step_rank", 6, "ssm.state_size", 4, "ssm.inner_size",
			13, "ssm.conv_kernel", 4), []gguftest.Tensor{embedding(),
			floats("blk.0.ssm_a", 6)}},
		{"layer 0 is recurrent: false, and one layer in 4 should have full attention",
			keys("qwen35", deltaKeys("attention.recurrent_layers", []int32{0})...),
			[]gguftest.Tensor{embedding()}},
		{"one layer in 3 has full attention", keys("gpt-oss", "attention.sliding_window", 8,
			"attention.sliding_window_pattern", 3), []gguftest.Tensor{embedding()}},
		{"has sigmoids: false, and a correction bias: true", keys("deepseek2", latentKeys()...),
			[]gguftest.Tensor{embedding(), floats("blk.0.exp_probs_b.bias", 4)}},
		{"scales attention by the position", keys("deepseek2",
			latentKeys("attention.temperature_scale", float32(0.1))...),
			[]gguftest.Tensor{embedding()}},
		{"an adapter", keys("llama", "general.type", "adapter"), nil},
		{"reads images", keys("clip"), nil},
		{"IQ2_XXS cannot be converted: blk.0.attn_q.weight: its codes are indices of tables",
			keys("llama"), []gguftest.Tensor{embedding(), block}},
		{`"blk.0.magic.weight" is not one of the architecture llama`, keys("llama"),
			[]gguftest.Tensor{embedding(), floats("blk.0.magic.weight", 1)}},
		{"token_embd.weight is missing", keys("llama"), nil},
		{"lacks llama.context_length", keys("llama", "context_length", 0),
			[]gguftest.Tensor{embedding()}},
		{"head_count_kv differs between layers", keys("llama", "attention.head_count_kv",
			[]int32{1, 2}), []gguftest.Tensor{embedding()}},
		{"2 of 4 elements of a head are rotated", keys("llama", "rope.dimension_count", 2),
			[]gguftest.Tensor{embedding()}},
		{`scaled as "ntk"`, keys("llama", "rope.scaling.type", "ntk", "rope.scaling.factor",
			float32(2)), []gguftest.Tensor{embedding()}},
		{`pre is "unheard"`, replaced(keys("llama"), "tokenizer.ggml.pre", "unheard"),
			[]gguftest.Tensor{embedding()}},
		{"epsilon is not a finite number", keys("llama", "attention.layer_norm_rms_epsilon",
			float32(math.NaN())), []gguftest.Tensor{embedding()}},
		{"3 tokens, and embeddings of 2", keys("qwen3"),
			[]gguftest.Tensor{floats("token_embd.weight", 2, hidden)}},
	} {
		_, err := open(t, c.keys, c.tensors...)
		var p *problem.Problem
		if !errors.As(err, &p) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, expected %q", err, c.want)
		}
	}
}
