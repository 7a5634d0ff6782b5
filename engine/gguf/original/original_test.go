package original_test

import (
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
	for _, want := range []string{`"rope_type": "llama3"`, `"factor": 32`,
		`"high_freq_factor": 4`, `"original_max_position_embeddings": 8192`} {
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
		"general.sampling.temp", float32(0.6), "general.sampling.top_k", 20), embedding())
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
		{"it converts gemma,", keys("rwkv"), nil},
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
