package original

// The rotary embedding: which part of a head is rotated, and how frequencies are scaled. Some
// scalings are keys of the metadata. Those of Llama 3 and of Phi 3 are tensors of factors, one for
// each frequency.

import (
	"maps"
	"math"
	"slices"

	"headroom/engine/gguf"
)

// The tensors of factors. They are no tensors of the original.
const (
	ropeFreqs  = "rope_freqs.weight"
	ropeLong   = "rope_factors_long.weight"
	ropeShort  = "rope_factors_short.weight"
	ropeFactor = "rope.scaling.factor"
)

// rope sets the keys of the rotary embedding. A head has dim elements.
func (b *builder) rope(dim int) {
	if rotated := b.count("rope.dimension_count", dim); rotated != dim {
		if !b.row.partial || rotated > dim || rotated == 0 {
			b.failf("%d of %d elements of a head are rotated", rotated, dim)
			return
		}
		b.set("partial_rotary_factor", float64(rotated)/float64(dim))
	}
	kind := b.File.Metadata.Text(b.prefix + "rope.scaling.type")
	factor := b.float(ropeFactor, 0)
	original := b.count("rope.scaling.original_context_length", 0)
	switch {
	case b.hasTensor(ropeLong) || b.hasTensor(ropeShort):
		b.set("rope_scaling", map[string]any{"type": "longrope", "rope_type": "longrope",
			"long_factor": b.factors(ropeLong), "short_factor": b.factors(ropeShort)})
	case b.hasTensor(ropeFreqs):
		b.llama3(dim)
	case kind == "" || kind == "none" || factor == 0 || factor == 1 && kind == "linear":
	case kind == "linear":
		b.set("rope_scaling", map[string]any{"type": kind, "rope_type": kind, "factor": factor})
	case kind == "yarn" && original > 0:
		scaling := map[string]any{"type": kind, "rope_type": kind, "factor": factor,
			"original_max_position_embeddings": original}
		for from, to := range map[string]string{"attn_factor": "attention_factor",
			"yarn_beta_fast": "beta_fast", "yarn_beta_slow": "beta_slow"} {
			if n := b.float("rope.scaling."+from, 0); n != 0 {
				scaling[to] = n
			}
		}
		if b.row.untruncated {
			scaling["truncate"] = false
		}
		if b.row.latent {
			b.latentYarn(scaling)
		}
		b.set("rope_scaling", scaling)
	default:
		b.failf("the rotary embedding is scaled as %.40q", kind)
	}
}

// nestRope puts the keys of the rotary embedding into rope_parameters.
func (b *builder) nestRope() {
	all := map[string]any{"rope_type": "default", "partial_rotary_factor": 1.0}
	if scaling, ok := b.config["rope_scaling"].(map[string]any); ok {
		maps.Copy(all, scaling)
	}
	for _, key := range []string{"rope_theta", "partial_rotary_factor"} {
		if value, ok := b.config[key]; ok {
			all[key] = value
		}
		delete(b.config, key)
	}
	delete(b.config, "rope_scaling")
	if sections := b.File.Metadata[b.prefix+"rope.dimension_sections"].Numbers; len(sections) > 2 {
		all["mrope_section"] = []int{int(sections[0]), int(sections[1]), int(sections[2])}
	}
	b.set("rope_parameters", all)
}

// factors returns the numbers in a tensor of factors.
func (b *builder) factors(name string) []float64 {
	t := b.File.Tensor(name)
	if t == nil {
		b.failf("the tensor %s is missing", name)
		return nil
	}
	return b.floats(t)
}

func (b *builder) floats(t *gguf.Tensor) (out []float64) {
	numbers, err := b.File.Floats(t)
	if err != nil {
		b.failf("%v", err)
	}
	for _, n := range numbers {
		if n-n != 0 {
			b.failf("tensor %s has a value that is not a finite number", t.Name)
			return nil
		}
		out = append(out, shortest(float64(n)))
	}
	return out
}

// The parameters of the scaling that Llama 3.1 and 3.2 have.
const (
	llama3Low, llama3High = 1, 4
	llama3Context         = 8192
)

// llama3 recovers the scaling of Llama 3 from the factors: 1 for high frequencies, the same factor
// for low ones, and in between what a known formula gives.
// Source: transformers, modeling_rope_utils.py.
func (b *builder) llama3(dim int) {
	got := b.factors(ropeFreqs)
	if b.err != nil || len(got) == 0 {
		return
	}
	factor, theta := slices.Max(got), b.float("rope.freq_base", 10_000)
	for i, f := range got {
		length := 2 * math.Pi * math.Pow(theta, float64(2*i)/float64(dim))
		want := 1.0
		if length > llama3Context/llama3Low {
			want = factor
		} else if length >= llama3Context/llama3High {
			smooth := (llama3Context/length - llama3Low) / (llama3High - llama3Low)
			want = 1 / ((1-smooth)/factor + smooth)
		}
		if len(got) != dim/2 || math.Abs(f-want) > 1e-3*want {
			b.failf("number %d of %s is %g, and %g in the scaling of Llama 3", i, ropeFreqs, f,
				want)
			return
		}
	}
	if factor == 1 {
		return
	}
	b.set("rope_scaling", map[string]any{"type": "llama3", "rope_type": "llama3",
		"factor": factor, "low_freq_factor": float64(llama3Low),
		"high_freq_factor":                 float64(llama3High),
		"original_max_position_embeddings": llama3Context})
}
