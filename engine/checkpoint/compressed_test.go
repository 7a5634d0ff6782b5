package checkpoint

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"headroom/engine/problem"
)

// group returns an entry of config_groups with integers in groups.
func group(bits, size, targets string) string {
	return `{"weights": {"num_bits": ` + bits + `, "type": "int", "symmetric": true, "actorder": null,
		"strategy": "group", "group_size": ` + size + `, "observer": "minmax"},
		"input_activations": null, "targets": [` + targets + `]}`
}

// TestCompressedTargets checks which scheme a module has: that of its path, then that of the first
// expression, then that of its class, unless it is ignored.
func TestCompressedTargets(t *testing.T) {
	c, err := ParseConfig([]byte(`{"model_type": "m", "quantization_config": {
		"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {
		"group_0": ` + group("4", "128", `"Linear"`) + `,
		"group_1": ` + group("8", "64", `"re:.*down_proj", "re:(?!x)y"`) + `,
		"group_2": ` + group("8", "32", `"a.0.down_proj", "lm_head"`) + `},
		"ignore": ["a.1.q_proj", "re:.*gate$", "Embedding"], "kv_cache_scheme": null,
		"sparsity_config": {"format": "dense"}, "transform_config": {}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for module, want := range map[string]pack{
		"a.0.q_proj": {Bits: 4, Group: 128}, "a.1.q_proj": {},
		"a.1.q_proj.x":  {Bits: 4, Group: 128},
		"a.0.down_proj": {Bits: 8, Group: 32}, "a.1.down_proj": {Bits: 8, Group: 64},
		"lm_head": {Bits: 8, Group: 32}, "a.0.mlp.gate": {},
		"a.0.mlp.gate_proj": {Bits: 4, Group: 128},
	} {
		if got := c.Quantization.of(module); got != want {
			t.Errorf("%s: got %+v, expected %+v", module, got, want)
		}
	}
	if got := c.Quantization.String(); got != "4-bit, group 128 (compressed-tensors)" {
		t.Errorf("got %q for the whole model, expected that of Linear", got)
	}
}

// TestCompressedRefusals checks the sentences about what is not supported.
func TestCompressedRefusals(t *testing.T) {
	for quantization, says := range map[string]string{
		`"format": "pack-quantized"`: "names no group",
		`"format": "marlin-24", "config_groups": {"a": ` + group("4", "128", `"Linear"`) +
			`}`: `has the format "marlin-24"`,
		`"format": "pack-quantized", "config_groups": {"a": ` + group("7", "128", `"Linear"`) +
			`}`: "expected integers of 2, 3",
		`"format": "pack-quantized", "config_groups": {"a": {"weights": {"num_bits": 8,
			"type": "int", "strategy": "tensor"}, "targets": ["Linear"]}}`: `strategy "tensor"`,
		`"format": "dense", "config_groups": {"a": {"format": "pack-quantized", "weights": {
			"num_bits": 4, "type": "float", "group_size": 16}, "targets": ["Linear"]}}`: `type "float"`,
		`"format": "pack-quantized", "config_groups": {"a": ` + group("4", "128", `"Linear"`) +
			`}, "transform_config": {"config_groups": {"u": {}}}`: "rotated",
		`"format": "pack-quantized", "config_groups": {"a": ` + group("4", "128", `"Linear"`) +
			`}, "sparsity_config": {"format": "sparse-24-bitmask"}`: "sparse",
		`"format": "pack-quantized", "config_groups": []`: "damaged",
	} {
		_, err := ParseConfig([]byte(`{"model_type": "m", "quantization_config": {
			"quant_method": "compressed-tensors", ` + quantization + `}}`))
		if p := problem.From(err); err == nil || p.Code == problem.Internal ||
			!strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %v, expected %q", quantization, err, says)
		}
	}
}

// TestHostilePatterns: expressions with counts are ignored. Those that would take very long are
// refused with a sentence, before any is matched.
func TestHostilePatterns(t *testing.T) {
	var p modulePatterns
	if why := p.add([]string{"re:(((a{999}){999}){9})*", "re:b"}, 0); why != "" ||
		len(p.regexps) != 1 {
		t.Errorf("%q, %d expressions, expected only the one without a count", why, len(p.regexps))
	}
	real := []string{"re:.*gate$", "re:model\\.layers\\.(0|1|2)\\..*(q|k|v)_proj", "lm_head"}
	for layer := range 80 {
		real = append(real, fmt.Sprintf("re:.*layers\\.%d\\..*down_proj", layer))
	}
	for name, c := range map[string]struct {
		targets []string
		says    string
	}{
		"real ones":      {real, ""},
		"the longest":    {[]string{"re:" + strings.Repeat("a", maxPatternBytes)}, ""},
		"too long":       {[]string{"re:" + strings.Repeat("a", 1+maxPatternBytes)}, "1025 bytes"},
		"too many":       {slices.Repeat([]string{"re:a"}, 1+maxPatterns), "too many"},
		"many operators": {slices.Repeat([]string{"re:(.*.*)*.*a*"}, 103), "too many"},
	} {
		var p modulePatterns
		if why := p.add(c.targets, 0); (why == "") != (c.says == "") ||
			!strings.Contains(why, c.says) {
			t.Errorf("%s: got %q, expected %q", name, why, c.says)
		}
	}
	long := `"re:` + strings.Repeat("(.*.*)*.*a*", 2800) + `zzz"`
	for config, says := range map[string]string{
		`"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {"a": ` +
			group("4", "128", `"Linear"`) + `}, "ignore": [` + long + `]`: "30803 bytes",
		`"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {"a": ` +
			group("4", "128", long) + `}`: "30803 bytes",
		`"quant_method": "gptq", "bits": 4, "dynamic": {"-:` + long[4:] + `: {}}`: "30803 bytes",
		`"quant_method": "gptq", "bits": 4, "dynamic": {"+:` + long[4:] + `: {}}`: "30803 bytes",
	} {
		_, err := ParseConfig([]byte(`{"model_type": "m", "quantization_config": {` + config +
			`}}`))
		if p := problem.From(err); err == nil || p.Code == problem.Internal ||
			!strings.Contains(err.Error(), says) {
			t.Errorf("%.90s: got %v, expected %q", config, err, says)
		}
	}
}

// TestCodesOfUnknownType: a file opens whose codes have a type that nothing knows, and the module
// is refused.
func TestCodesOfUnknownType(t *testing.T) {
	header := `{"m.a.weight_packed": {"dtype": "U9", "shape": [2, 2], ` +
		`"data_offsets": [0, 16]}}`
	file := append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...)
	w := openFile(t, t.TempDir(), `"quantization_config": {"quant_method": "compressed-tensors", `+
		`"format": "pack-quantized", "config_groups": {"a": `+group("8", "32", `"Linear"`)+`}}`,
		append(file, make([]byte, 16)...))
	w.At("m.").Linear("a", 2, 64)
	if w.Err() == nil {
		t.Error("codes of an unknown type were loaded")
	}
}

// TestModuleMatchedOnce: loading asks for a module several times. Only the first time its name is
// matched.
func TestModuleMatchedOnce(t *testing.T) {
	c := &schemes{all: []scheme{{Bits: 4}, {Bits: 8}}}
	_ = c.targets.add([]string{"re:a"}, 1)
	_ = c.ignored.add([]string{"re:b"}, 0)
	for range 2 { // the second time without expressions
		if s, ok := c.of("a.x"); !ok || s.Bits != 8 {
			t.Errorf("a.x: %+v, %t", s, ok)
		}
		if s, ok := c.of("b.x"); ok {
			t.Errorf("b.x: %+v", s)
		}
		c.targets, c.ignored = modulePatterns{}, modulePatterns{}
	}
}
