package original

// The names of tensors in MLX's classes, which for most are those of the original. Experts are
// stacked in both.

import (
	"slices"
	"strconv"
	"strings"

	"headroom/engine/gguf"
)

// outside has the modules that are in no layer.
var outside = map[string]string{"token_embd": "model.embed_tokens", "output_norm": "model.norm",
	"output": "lm_head"}

// inLayer has the modules of a layer in most architectures.
var inLayer = map[string]string{
	"attn_norm":     "input_layernorm",
	"attn_q":        "self_attn.q_proj",
	"attn_k":        "self_attn.k_proj",
	"attn_v":        "self_attn.v_proj",
	"attn_output":   "self_attn.o_proj",
	"attn_q_norm":   "self_attn.q_norm",
	"attn_k_norm":   "self_attn.k_norm",
	"ffn_norm":      "post_attention_layernorm",
	"ffn_gate":      "mlp.gate_proj",
	"ffn_up":        "mlp.up_proj",
	"ffn_down":      "mlp.down_proj",
	"ffn_gate_inp":  "mlp.gate",
	"ffn_gate_exps": "mlp.switch_mlp.gate_proj",
	"ffn_up_exps":   "mlp.switch_mlp.up_proj",
	"ffn_down_exps": "mlp.switch_mlp.down_proj",
}

// nameTensors sets the tensors of the original.
func (b *builder) nameTensors() {
	for i := range b.File.Tensors {
		t := &b.File.Tensors[i]
		if slices.Contains([]string{ropeFreqs, ropeLong, ropeShort}, t.Name) {
			continue
		}
		module, suffix, ok := b.moduleOf(t.Name)
		if !ok {
			b.failf("the tensor %.80q is not one of the architecture %s", t.Name,
				strings.TrimSuffix(b.prefix, "."))
			return
		}
		one := Tensor{Name: module + suffix, Shape: slices.Clone(t.Shape), From: t}
		if strings.HasSuffix(module, "shared_expert_gate") && len(t.Shape) == 1 {
			one.Shape = []int{1, t.Cols()}
		}
		if b.row.shifted && strings.HasSuffix(module, "norm") {
			one.Add = -1
		}
		if b.row.permuted {
			b.permute(&one, module)
		}
		b.Tensors = append(b.Tensors, one)
	}
}

// moduleOf returns the module of a tensor in the original, and what follows it.
func (b *builder) moduleOf(name string) (module, suffix string, ok bool) {
	at := strings.LastIndex(name, ".")
	if at < 0 {
		return "", "", false
	}
	name, suffix = name[:at], name[at:]
	if suffix != ".weight" && suffix != ".bias" {
		return "", "", false
	}
	inside, isLayer := strings.CutPrefix(name, "blk.")
	if !isLayer {
		module, ok = outside[name]
		return module, suffix, ok
	}
	number, part, _ := strings.Cut(inside, ".")
	if n, err := strconv.Atoi(number); err != nil || n < 0 || strconv.Itoa(n) != number {
		return "", "", false
	}
	if module, ok = b.row.names[part]; !ok {
		module, ok = inLayer[part]
	}
	return "model.layers." + number + "." + module, suffix, ok
}

// permute sets the order of the rows of q and k.
func (b *builder) permute(t *Tensor, module string) {
	switch {
	case strings.HasSuffix(module, "self_attn.q_proj"):
		t.heads = b.required("attention.head_count")
	case strings.HasSuffix(module, "self_attn.k_proj"):
		t.heads = b.count("attention.head_count_kv", b.required("attention.head_count"))
	default:
		return
	}
	if t.heads == 0 || t.rows()%t.heads != 0 || t.rows()/t.heads%2 != 0 {
		b.failf("tensor %s has %d rows for %d heads", t.From.Name, t.rows(), t.heads)
		t.heads = 0
	}
}

// Bytes returns the size of t in the file.
func (t *Tensor) Bytes() int64 { return t.From.Bytes }

// Type returns the type of t in the file.
func (t *Tensor) Type() gguf.Type { return t.From.Type }
