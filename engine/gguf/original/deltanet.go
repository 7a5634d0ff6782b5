package original

// Qwen3.5 and Qwen3-Next: layers of GatedDeltaNet between layers of attention.
//
// llama.cpp stores the decay as -exp(A_log), and norms with 1 added, which is how MLX's classes
// have them. In files of Qwen3.5, the value heads of different key heads alternate: value head r of
// key head k is number r*keys + k, where the original has k*(values/keys) + r. That is the order of
// rows of the inputs, and of columns of the output.
//
// Source: llama.cpp, conversion/qwen.py.

import (
	"math"
	"strconv"
	"strings"
)

// deltaNames has the names of GatedDeltaNet, and of the experts beside a shared one.
var deltaNames = map[string]string{
	"attn_qkv":            "linear_attn.in_proj_qkv",
	"attn_gate":           "linear_attn.in_proj_z",
	"ssm_beta":            "linear_attn.in_proj_b",
	"ssm_alpha":           "linear_attn.in_proj_a",
	"ssm_in":              "linear_attn.in_proj_qkvz",
	"ssm_ba":              "linear_attn.in_proj_ba",
	"ssm_out":             "linear_attn.out_proj",
	"ssm_conv1d":          "linear_attn.conv1d",
	"ssm_norm":            "linear_attn.norm",
	"ssm_a":               "linear_attn.A_log",
	"ssm_dt.bias":         "linear_attn.dt_bias",
	"post_attention_norm": "post_attention_layernorm",
	"ffn_gate_inp_shexp":  "mlp.shared_expert_gate",
	"ffn_gate_shexp":      "mlp.shared_expert.gate_proj",
	"ffn_up_shexp":        "mlp.shared_expert.up_proj",
	"ffn_down_shexp":      "mlp.shared_expert.down_proj",
}

// delta is the shape of GatedDeltaNet.
type delta struct{ keyHeads, valueHeads, keyDim, valueDim int }

// deltaShape returns the shape. ok is false if it is not valid.
func (b *builder) deltaShape() (d delta, ok bool) {
	d = delta{keyHeads: b.required("ssm.group_count"),
		valueHeads: b.required("ssm.time_step_rank"), keyDim: b.required("ssm.state_size")}
	inner := b.required("ssm.inner_size")
	if b.err != nil {
		return d, false
	}
	if d.valueHeads%d.keyHeads != 0 || inner%d.valueHeads != 0 {
		b.failf("%d value heads have %d elements for %d key heads", d.valueHeads, inner,
			d.keyHeads)
		return d, false
	}
	d.valueDim = inner / d.valueHeads
	return d, true
}

// values returns the number of value heads of a key head.
func (d delta) values() int { return d.valueHeads / d.keyHeads }

// keys returns the rows of q and k.
func (d delta) keys() int { return 2 * d.keyHeads * d.keyDim }

// tiled returns the row or column of the file for i, in value heads of n rows from the given row
// on.
func (d delta) tiled(from, n int) func(i int) int {
	return func(i int) int {
		if i < from {
			return i
		}
		head, at := (i-from)/n, (i-from)%n
		return from + (head%d.values()*d.keyHeads+head/d.values())*n + at
	}
}

// tiledDelta returns the tensors of Qwen3.5 in the order of the original.
func (b *builder) tiledDelta(t Tensor, part string) []Tensor {
	d, ok := b.deltaShape()
	if !ok || !strings.Contains(t.Name, ".linear_attn.") {
		return []Tensor{t}
	}
	if d.values() > 1 {
		switch part {
		case "attn_qkv", "ssm_conv1d":
			t.order = d.tiled(d.keys(), d.valueDim)
		case "attn_gate":
			t.order = d.tiled(0, d.valueDim)
		case "ssm_beta", "ssm_alpha", "ssm_a", "ssm_dt.bias":
			t.order = d.tiled(0, 1)
		case "ssm_out":
			t.columns, t.run = d.tiled(0, d.valueDim), d.valueDim
		}
	}
	return b.deltaParts(t, part)
}

// deltaParts returns the tensors of a layer. Files of Qwen3-Next have its heads in the order of the
// original. in_proj_ba has the rows b and a of each key head, and in_proj_qkvz, which old files
// have, q, k, v and z.
func (b *builder) deltaParts(t Tensor, part string) []Tensor {
	d, ok := b.deltaShape()
	if !ok || !strings.Contains(t.Name, ".linear_attn.") {
		return []Tensor{t}
	}
	if !b.checkDelta(&t, part, d) {
		return nil
	}
	switch part {
	case "ssm_a":
		t.value = logOfDecay
	case "ssm_conv1d":
		t.Shape = []int{t.Shape[0], t.Shape[1], 1}
	case "ssm_ba":
		n := d.values()
		return []Tensor{t.rowsOf("in_proj_b", d.valueHeads, picked(2*n, 0, n)),
			t.rowsOf("in_proj_a", d.valueHeads, picked(2*n, n, n))}
	case "ssm_in":
		keys, values := d.keyHeads*d.keyDim, d.values()*d.valueDim
		head := 2*d.keyDim + 2*values
		q, k := picked(head, 0, d.keyDim), picked(head, d.keyDim, d.keyDim)
		v := picked(head, 2*d.keyDim, values)
		return []Tensor{
			t.rowsOf("in_proj_qkv", 2*keys+d.valueHeads*d.valueDim, func(i int) int {
				switch {
				case i < keys:
					return q(i)
				case i < 2*keys:
					return k(i - keys)
				}
				return v(i - 2*keys)
			}),
			t.rowsOf("in_proj_z", d.valueHeads*d.valueDim,
				picked(head, 2*d.keyDim+values, values))}
	}
	return []Tensor{t}
}

// picked returns the row for i, where each count rows have n that are meant, from the given one on.
func picked(count, from, n int) func(i int) int {
	return func(i int) int { return i/n*count + from + i%n }
}

// rowsOf returns a tensor of n rows of t, called module instead of its own.
func (t Tensor) rowsOf(module string, n int, order func(i int) int) Tensor {
	at := strings.Index(t.Name, ".linear_attn.")
	t.Name = t.Name[:at] + ".linear_attn." + module + ".weight"
	t.Shape, t.order = []int{n, t.Shape[len(t.Shape)-1]}, order
	return t
}

// checkDelta reports whether the tensor of a part has the shape of d, and is in a layer of
// GatedDeltaNet.
func (b *builder) checkDelta(t *Tensor, part string, d delta) bool {
	inner := d.valueHeads * d.valueDim
	rows := map[string]int{"attn_qkv": d.keys() + inner, "attn_gate": inner,
		"ssm_beta": d.valueHeads, "ssm_alpha": d.valueHeads, "ssm_a": d.valueHeads,
		"ssm_dt.bias": d.valueHeads, "ssm_conv1d": d.keys() + inner,
		"ssm_ba": 2 * d.valueHeads, "ssm_in": d.keys() + 2*inner}
	dimensions := 2
	if part == "ssm_a" || part == "ssm_dt.bias" {
		dimensions = 1
	}
	if n, ok := rows[part]; ok && (t.rows() != n || len(t.Shape) != dimensions) ||
		part == "ssm_out" && (t.From.Cols() != inner || len(t.Shape) != 2) {
		b.failf("tensor %s has the shape %v, which is not that of %d key heads of %d and %d value "+
			"heads of %d", t.From.Name, t.Shape, d.keyHeads, d.keyDim, d.valueHeads, d.valueDim)
		return false
	}
	number, _, _ := strings.Cut(strings.TrimPrefix(t.From.Name, "blk."), ".")
	if n, _ := strconv.Atoi(number); b.isFull(n) {
		b.failf("tensor %s is in a layer of full attention", t.From.Name)
		return false
	}
	return true
}

// isFull reports whether layer i has full attention.
func (b *builder) isFull(i int) bool {
	interval := b.fullInterval()
	return interval > 0 && (i+1)%interval == 0
}

// fullInterval returns the distance of layers with full attention.
func (b *builder) fullInterval() int { return b.count("full_attention_interval", 4) }

// logOfDecay returns A_log of -exp(A_log). Originals in bfloat16 are met exactly: among the float32
// that give x, one that is also a bfloat16 is chosen.
func logOfDecay(x float32) float32 {
	log := float32(math.Log(-float64(x)))
	bits := math.Float32bits(log)
	short := math.Float32frombits((bits + 0x7fff + bits>>16&1) &^ 0xffff)
	back := -math.Exp(float64(short))
	if math.Abs(back-float64(x)) <= math.Abs(float64(x))/(1<<23) {
		return short
	}
	return log
}

// qwen35 sets the keys of the layers.
func (b *builder) qwen35() {
	d, _ := b.deltaShape()
	b.set("full_attention_interval", b.fullInterval(),
		"linear_num_key_heads", d.keyHeads, "linear_num_value_heads", d.valueHeads,
		"linear_key_head_dim", d.keyDim, "linear_value_head_dim", d.valueDim,
		"linear_conv_kernel_dim", b.required("ssm.conv_kernel"))
	recurrent := b.File.Metadata[b.prefix+"attention.recurrent_layers"].Numbers
	for i := range min(b.layers(), len(recurrent)) {
		if recurrent[i] != 0 == b.isFull(i) {
			b.failf("layer %d is recurrent: %t, and one layer in %d should have full attention", i,
				recurrent[i] != 0, b.fullInterval())
		}
	}
}

func (b *builder) qwen35MoE() {
	b.qwen35()
	b.qwen2MoE()
	b.set("norm_topk_prob", true)
}
