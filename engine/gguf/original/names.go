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
	gateUp:          "mlp.switch_mlp.gate_up_proj",
}

// gateUp is a stack of experts in which the rows of gate_proj come before those of up_proj.
const gateUp = "ffn_gate_up_exps"

// nameTensors sets the tensors of the original.
func (b *builder) nameTensors() {
	for i := range b.File.Tensors {
		t := &b.File.Tensors[i]
		if slices.Contains([]string{ropeFreqs, ropeLong, ropeShort}, t.Name) {
			continue
		}
		name, part, ok := b.nameOf(t.Name)
		if !ok {
			b.failf("the tensor %.80q is not one of the architecture %s", t.Name,
				strings.TrimSuffix(b.prefix, "."))
			return
		}
		one := Tensor{Name: name, Shape: slices.Clone(t.Shape), From: t}
		module := strings.TrimSuffix(name, ".weight")
		if strings.HasSuffix(module, "shared_expert_gate") && len(t.Shape) == 1 {
			one.Shape = []int{1, t.Cols()}
		}
		if b.row.shifted && strings.HasSuffix(module, "norm") {
			one.Add = -1
		}
		if b.row.permuted {
			b.permute(&one, strings.TrimSuffix(module, ".bias"))
		}
		switch {
		case part == gateUp:
			b.splitGateUp(one)
		case b.row.arrange != nil:
			b.Tensors = append(b.Tensors, b.row.arrange(b, one, part)...)
		default:
			b.Tensors = append(b.Tensors, one)
		}
	}
}

// nameOf returns the name of a tensor in the original, and its part: the name of its module within
// a layer of the file. Blocks after the last layer draft tokens. Only conversions that leave them
// out see these names.
func (b *builder) nameOf(name string) (to, part string, ok bool) {
	inside, isLayer := strings.CutPrefix(name, "blk.")
	if !isLayer {
		module, suffix, ok := cutSuffix(name)
		return outside[module] + suffix, "", ok && outside[module] != ""
	}
	number, inside, _ := strings.Cut(inside, ".")
	n, err := strconv.Atoi(number)
	if err != nil || n < 0 || strconv.Itoa(n) != number {
		return "", "", false
	}
	if b.row.block != "" && n >= b.layers() {
		return b.row.block + number + "." + inside, "", true
	}
	layer := "model.layers." + number + "."
	if whole := b.row.names[inside]; whole != "" {
		return layer + whole, inside, true
	}
	part, suffix, ok := cutSuffix(inside)
	module := b.row.names[part]
	if module == "" {
		module = inLayer[part]
	}
	return layer + module + suffix, part, ok && module != ""
}

// cutSuffix cuts a name before ".weight" or ".bias". ok is false if it has neither.
func cutSuffix(name string) (module, suffix string, ok bool) {
	for _, suffix = range []string{".weight", ".bias"} {
		if module, ok = strings.CutSuffix(name, suffix); ok {
			return module, suffix, true
		}
	}
	return "", "", false
}

// splitGateUp adds gate_proj and up_proj of a stack of both, [experts, 2n, k].
func (b *builder) splitGateUp(t Tensor) {
	if len(t.Shape) != 3 || t.Shape[1]%2 != 0 {
		b.failf("tensor %s has the shape %v, expected two halves of rows", t.From.Name, t.Shape)
		return
	}
	n := t.Shape[1] / 2
	for i, module := range []string{"gate_proj", "up_proj"} {
		half := t
		half.Name = strings.Replace(t.Name, "gate_up_proj", module, 1)
		half.Shape = []int{t.Shape[0], n, t.Shape[2]}
		half.order = func(row int) int { return row/n*2*n + i*n + row%n }
		b.Tensors = append(b.Tensors, half)
	}
}

// permute sets the order of the rows of q and k. Where llama.cpp rotates pairs of neighbours, files
// have row j of the first half of a head beside row j of the second half.
func (b *builder) permute(t *Tensor, module string) {
	heads := 0
	switch {
	case strings.HasSuffix(module, "self_attn.q_proj"):
		heads = b.required("attention.head_count")
	case strings.HasSuffix(module, "self_attn.k_proj"):
		heads = b.count("attention.head_count_kv", b.required("attention.head_count"))
	default:
		return
	}
	if heads == 0 || t.rows()%heads != 0 || t.rows()/heads%2 != 0 {
		b.failf("tensor %s has %d rows for %d heads", t.From.Name, t.rows(), heads)
		return
	}
	dim := t.rows() / heads
	t.order = func(i int) int {
		head, at := i/dim, i%dim
		return head*dim + at%(dim/2)*2 + at/(dim/2)
	}
}

// Bytes returns the size of t in the file.
func (t *Tensor) Bytes() int64 { return t.From.Bytes }

// Type returns the type of t in the file.
func (t *Tensor) Type() gguf.Type { return t.From.Type }
