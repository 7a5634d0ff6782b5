package convert

// The steps from the names and shapes of a checkpoint to those of mlx-lm's classes. A family is a
// list of them (families.go). Each leaves what is in mlx-lm's form already, so that the source may
// be an MLX conversion.

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"headroom/engine/checkpoint"
	"headroom/engine/problem"
	"headroom/engine/safetensors"
)

// mapping has the tensors of the result by name, while steps change them.
type mapping struct {
	config  *checkpoint.Config
	tensors map[string]*tensor
	block   bool  // a block that drafts tokens was left out
	err     error // the first; a Problem
}

// step changes a mapping.
type step func(m *mapping)

func newMapping(config *checkpoint.Config, values []checkpoint.Values, keepsPacked bool) *mapping {
	m := &mapping{config: config, tensors: map[string]*tensor{}}
	for i := range values {
		v := &values[i]
		if keepsPacked && v.Codes.DType == safetensors.U8 { // gpt-oss: MLX reads words
			m.keepBlocks(v)
			continue
		}
		t := newTensor(v)
		m.tensors[t.name] = t
	}
	return m
}

// keepBlocks adds the codes and the scales of blocks as tensors of their own.
func (m *mapping) keepBlocks(v *checkpoint.Values) {
	codes, scales := v.Codes, v.Scales
	codes.DType = safetensors.U32
	codes.Shape = []int{v.Shape[0], v.Shape[1], v.Shape[2] / 8}
	for suffix, raw := range map[string]safetensors.Tensor{".weight": codes, ".scales": scales} {
		t := newTensor(&checkpoint.Values{Name: v.Name + suffix, Shape: raw.Shape, Tensor: raw})
		m.tensors[t.name] = t
	}
}

// sorted returns the tensors, in the order of their names.
func (m *mapping) sorted() []*tensor {
	all := make([]*tensor, 0, len(m.tensors))
	for _, name := range slices.Sorted(maps.Keys(m.tensors)) {
		all = append(all, m.tensors[name])
	}
	return all
}

// names returns the names of all tensors, sorted.
func (m *mapping) names() []string { return slices.Sorted(maps.Keys(m.tensors)) }

func (m *mapping) failf(format string, args ...any) {
	if m.err == nil {
		m.err = problem.New(problem.ModelBroken,
			"The model's weights do not match its config.json", fmt.Sprintf(format, args...),
			"Download the model again.")
	}
}

// replace puts t, under its name, in the place of the tensors called old.
func (m *mapping) replace(t *tensor, old ...string) {
	for _, name := range old {
		delete(m.tensors, name)
	}
	if m.tensors[t.name] != nil {
		m.failf("two tensors become %s", t.name)
	}
	m.tensors[t.name] = t
}

// number returns an integer of config.json, or 0.
func (m *mapping) number(key string) int {
	var keys map[string]any
	if m.config.Decode(&keys) != nil {
		return 0
	}
	n, _ := keys[key].(float64)
	return int(n)
}

// isTrue reports whether config.json has the key with the value true.
func (m *mapping) isTrue(key string) bool {
	var keys map[string]any
	return m.config.Decode(&keys) == nil && keys[key] == true
}

// commonSteps are those of every family.
var commonSteps = []step{
	drop("rotary_emb.inv_freq", "rotary_emb.cos_cached", "rotary_emb.sin_cached", "rope.inv_freq",
		".input_scale", ".output_scale", ".activation_scale", ".k_scale", ".v_scale"),
}

// rename replaces the first prefix that a name has, in pairs of old and new.
func rename(pairs ...string) step {
	return func(m *mapping) {
		for _, name := range m.names() {
			for i := 0; i < len(pairs); i += 2 {
				rest, ok := strings.CutPrefix(name, pairs[i])
				if !ok {
					continue
				}
				if pairs[i] != pairs[i+1] {
					t := m.tensors[name]
					t.name = pairs[i+1] + rest
					m.replace(t, name)
				}
				break
			}
		}
	}
}

// within replaces parts of names, in pairs of old and new.
func within(pairs ...string) step {
	return func(m *mapping) {
		replacer := strings.NewReplacer(pairs...)
		for _, name := range m.names() {
			if to := replacer.Replace(name); to != name {
				t := m.tensors[name]
				t.name = to
				m.replace(t, name)
			}
		}
	}
}

// drop leaves out tensors whose name has one of the parts.
func drop(parts ...string) step {
	return func(m *mapping) {
		maps.DeleteFunc(m.tensors, func(name string, _ *tensor) bool {
			return slices.ContainsFunc(parts, func(part string) bool {
				return strings.Contains(name, part)
			})
		})
	}
}

// dropPrefix leaves out tensors whose name begins with one of the prefixes.
func dropPrefix(prefixes ...string) step {
	return func(m *mapping) {
		maps.DeleteFunc(m.tensors, func(name string, _ *tensor) bool {
			return slices.ContainsFunc(prefixes, func(prefix string) bool {
				return strings.HasPrefix(name, prefix)
			})
		})
	}
}

// dropTied leaves out the head if config.json says that it is the embedding.
func dropTied(m *mapping) {
	if m.isTrue("tie_word_embeddings") {
		drop("lm_head.")(m)
	}
}

// dropBlock leaves out, by a step, the block that drafts tokens: mlx-lm's classes have none.
func dropBlock(drop step) step {
	return func(m *mapping) {
		before := len(m.tensors)
		drop(m)
		m.block = m.block || len(m.tensors) < before
	}
}

var layerNumber = regexp.MustCompile(`(?:^|\.)layers\.(\d+)\.`)

// dropLayers leaves out layers after the last that config.json counts: blocks that draft tokens.
func dropLayers(m *mapping) {
	count := m.number("num_hidden_layers")
	maps.DeleteFunc(m.tensors, func(name string, _ *tensor) bool {
		found := layerNumber.FindStringSubmatch(name)
		if found == nil || count == 0 {
			return false
		}
		return atoi(found[1]) >= count
	})
}

// stack joins experts, one module each, into a stack. from is the part of a name before the number
// of an expert, to that of the stack. Pairs rename the parts of an expert.
func stack(from, to string, pairs ...string) step {
	pattern := regexp.MustCompile(`^(.*)` + regexp.QuoteMeta(from) + `(\d+)\.(.+)$`)
	renamed := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		renamed[pairs[i]] = pairs[i+1]
	}
	return func(m *mapping) {
		stacks := map[string]map[int]*tensor{}
		for _, name := range m.names() {
			found := pattern.FindStringSubmatch(name)
			if found == nil {
				continue
			}
			n, err := strconv.Atoi(found[2])
			if err != nil {
				continue
			}
			part := found[3]
			module, suffix, _ := strings.Cut(part, ".")
			if other, ok := renamed[module]; ok {
				part = other + "." + suffix
			}
			key := found[1] + to + part
			if stacks[key] == nil {
				stacks[key] = map[int]*tensor{}
			}
			stacks[key][n] = m.tensors[name]
			delete(m.tensors, name)
		}
		for _, key := range slices.Sorted(maps.Keys(stacks)) {
			m.addStack(key, stacks[key])
		}
	}
}

// addStack adds the stack of experts called name.
func (m *mapping) addStack(name string, experts map[int]*tensor) {
	first := experts[0]
	all := &tensor{name: name}
	for i := range len(experts) {
		t := experts[i]
		if t == nil || !slices.Equal(t.shape, first.shape) || t.isRaw ||
			t.values[0].Tensor.DType != first.values[0].Tensor.DType {
			m.failf("%s would have %d experts, and number %d is missing or has another shape or "+
				"type", name, len(experts), i)
			return
		}
		all.values = append(all.values, t.values...)
	}
	all.setShape(slices.Concat([]int{len(experts)}, first.shape)...)
	m.replace(all)
}

// split cuts fused tensors, whose names end with from, into two. They have twice n rows in a last
// matrix: first those of the first part, then those of the second. With every, rows alternate.
func split(from, first, second string, every bool) step {
	return func(m *mapping) {
		for _, name := range m.names() {
			base, ok := strings.CutSuffix(name, from)
			if !ok {
				continue
			}
			whole, n := m.tensors[name], len(m.tensors[name].shape)
			if n < 2 || whole.shape[n-2]%2 != 0 {
				m.failf("%s has the shape %s, expected two halves", name,
					safetensors.ShapeText(whole.shape...))
				return
			}
			delete(m.tensors, name)
			shape := slices.Clone(whole.shape)
			half := shape[n-2] / 2
			shape[n-2] = half
			for i, suffix := range []string{first, second} {
				t := *whole
				t.name = base + suffix
				t.setShape(shape...)
				t.pick = pick{take: half, skip: 2 * half, first: i * half, step: 1}
				if every {
					t.pick.first, t.pick.step = i, 2
				}
				m.replace(&t)
			}
		}
	}
}

// splitBias cuts vectors of fused biases, [.., 2n], whose elements alternate.
func splitBias(from, first, second string) step {
	return func(m *mapping) {
		for _, name := range m.names() {
			base, ok := strings.CutSuffix(name, from)
			if !ok {
				continue
			}
			whole := m.tensors[name]
			delete(m.tensors, name)
			shape := slices.Clone(whole.shape)
			n := len(shape) - 1
			shape[n] /= 2
			for i, suffix := range []string{first, second} {
				t := *whole
				t.name = base + suffix
				t.setShape(shape...)
				t.rows, t.cols = t.rows*t.cols, 1
				t.pick = pick{take: shape[n], skip: 2 * shape[n], first: i, step: 2}
				m.replace(&t)
			}
		}
	}
}

// splitColumns cuts fused tensors [e, k, 2n], whose names end with from, into two [e, n, k]: their
// matrices are transposed. With every, columns alternate. A single suffix cuts nothing.
func splitColumns(from string, every bool, suffixes ...string) step {
	return func(m *mapping) {
		for _, name := range m.names() {
			base, ok := strings.CutSuffix(name, from)
			whole := m.tensors[name]
			if !ok || len(whole.shape) != 3 {
				continue
			}
			delete(m.tensors, name)
			e, k, n := whole.shape[0], whole.shape[1], whole.shape[2]/len(suffixes)
			for i, suffix := range suffixes {
				t := *whole
				t.name, t.transposed = base+suffix, true
				t.setShape(e, n, k)
				t.pick = pick{take: n, skip: k, first: i * n, step: 1}
				if every {
					t.pick.first, t.pick.step = i, len(suffixes)
				}
				m.replace(&t)
			}
		}
	}
}

// convolutions turns the weights of convolutions, [c, 1, k], into MLX's [c, k, 1]. The elements
// stay where they are.
func convolutions(part string) step {
	return func(m *mapping) {
		for _, t := range m.tensors {
			if s := t.shape; strings.Contains(t.name, part) && len(s) == 3 && s[1] == 1 &&
				s[2] != 1 {
				t.shape = []int{s[0], s[2], 1}
				t.rows, t.cols = s[0], s[2]
			}
		}
	}
}

// shiftNorms adds 1 to norms whose weights an original stores around zero. Its convolutions tell
// that it is one, so this comes before their step.
func shiftNorms(m *mapping) {
	original := false
	for _, t := range m.tensors {
		if n := len(t.shape); strings.Contains(t.name, "conv1d.weight") && t.shape[n-1] != 1 {
			original = true
		}
	}
	for _, t := range m.tensors {
		for _, suffix := range []string{".input_layernorm.weight",
			".post_attention_layernorm.weight", "model.norm.weight", ".q_norm.weight",
			".k_norm.weight"} {
			if original && len(t.shape) == 1 && strings.HasSuffix(t.name, suffix) {
				t.add = 1
			}
		}
	}
}

// absorb cuts the matrix kv_b_proj of latent attention, [heads*(n+v), rank], into embed_q [heads,
// rank, n], transposed, and unembed_out [heads, v, rank].
func absorb(m *mapping) {
	n, v := m.number("qk_nope_head_dim"), m.number("v_head_dim")
	for _, name := range m.names() {
		base, ok := strings.CutSuffix(name, ".kv_b_proj.weight")
		if !ok {
			continue
		}
		whole := m.tensors[name]
		if len(whole.shape) != 2 || n+v == 0 || whole.shape[0]%(n+v) != 0 {
			m.failf("%s has the shape %s, expected heads of %d + %d rows", name,
				safetensors.ShapeText(whole.shape...), n, v)
			return
		}
		delete(m.tensors, name)
		heads, rank := whole.shape[0]/(n+v), whole.shape[1]
		keys, values := *whole, *whole
		keys.name, keys.transposed = base+".embed_q.weight", true
		keys.setShape(heads, rank, n)
		keys.pick = pick{take: rank, skip: n + v, step: 1}
		values.name = base + ".unembed_out.weight"
		values.setShape(heads, v, rank)
		values.pick = pick{take: v, skip: n + v, first: n, step: 1}
		m.replace(&keys)
		m.replace(&values)
	}
}

// atoi returns the number that digits write, or a very large one.
func atoi(digits string) int {
	n, err := strconv.Atoi(digits)
	if err != nil {
		return math.MaxInt
	}
	return n
}
