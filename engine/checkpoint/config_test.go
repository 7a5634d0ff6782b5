package checkpoint

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"headroom/engine/problem"
	"headroom/kernels"
)

func TestParseConfig(t *testing.T) {
	for _, c := range []struct {
		name, json  string
		model       string
		bits, group int
	}{
		{"flat", `{"model_type": "qwen3"}`, "qwen3", 0, 0},
		{"multimodal", `{"model_type": "qwen3_5", "text_config": {"model_type": "qwen3_5_text"}}`,
			"qwen3_5", 0, 0},
		{"no inner config", `{"model_type": "qwen3", "text_config": null}`, "qwen3", 0, 0},
		{"quantized",
			`{"model_type": "m", "quantization": {"bits": 4, "group_size": 64, "mode": "affine"}}`,
			"m", 4, 64},
		{"quantization_config alone",
			`{"model_type": "m", "quantization_config": {"bits": 3, "group_size": 32}}`, "m", 3,
			32},
		{"both keys",
			`{"model_type": "m", "quantization": {"bits": 8, "group_size": 128}, "quantization_config": {"quant_method": "awq", "bits": 4}}`, "m", 8, 128},
		{"one key is null",
			`{"model_type": "m", "quantization": null, "quantization_config": {"bits": 2, "group_size": 64}}`, "m", 2, 64},
		{"in text_config",
			`{"model_type": "m", "text_config": {"quantization": {"bits": 5, "group_size": 64}}}`,
			"m", 5, 64},
	} {
		got, err := ParseConfig([]byte(c.json))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		} else if got.ModelType != c.model || got.Quantization.Bits != c.bits ||
			got.Quantization.Group != c.group {
			t.Errorf("%s: got %q, %+v, expected %q, %d bits, groups of %d", c.name, got.ModelType,
				got.Quantization, c.model, c.bits, c.group)
		}
	}
}

// TestDecode checks that keys of text_config take precedence over those at the top level, and that
// the other keys are merged.
func TestDecode(t *testing.T) {
	c, err := ParseConfig([]byte(
		`{"model_type": "m", "tie_word_embeddings": true, "hidden_size": 1, "text_config": {"hidden_size": 2, "layers": 3}}`))
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Tie    bool `json:"tie_word_embeddings"`
		Hidden int  `json:"hidden_size"`
		Layers int  `json:"layers"`
		Absent int  `json:"absent"`
	}
	got.Absent = 7
	if err := c.Decode(&got); err != nil || !got.Tie || got.Hidden != 2 || got.Layers != 3 ||
		got.Absent != 7 {
		t.Errorf("got %+v (%v), expected the keys of both objects, and Absent unchanged", got, err)
	}
	var wrong struct {
		Hidden string `json:"hidden_size"`
	}
	if err := c.Decode(&wrong); err == nil || !strings.Contains(err.Error(), "hidden_size") {
		t.Errorf("number for a string field: got %v, expected an error that names hidden_size", err)
	}
}

func TestPerLayerQuantization(t *testing.T) {
	c, err := ParseConfig([]byte(`{"model_type": "m", "quantization": {"bits": 4, "group_size": 64,
		"a": {"bits": 8, "group_size": 32}, "b": false, "c": true, "d": {"bits": 6}, "mode": "affine"}}`))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]pack{"a": {Bits: 8, Group: 32}, "b": {},
		"d": {Bits: 6, Group: 64}} {
		got, ok := c.Quantization.Modules[name]
		if !ok || got != want {
			t.Errorf("%s: got %+v (%v), expected %+v", name, got, ok, want)
		}
	}
	if len(c.Quantization.Modules) != 3 {
		t.Errorf("got %v, expected three exceptions", c.Quantization.Modules)
	}
	if s := c.Quantization.String(); s != "4-bit, group 64" {
		t.Errorf("String() = %q, expected 4-bit, group 64", s)
	}
}

// TestMXConfig checks that bits and group size have defaults in the modes mxfp4 and mxfp8. An
// exception without a mode is affine; MLX writes the gates of experts in this way.
func TestMXConfig(t *testing.T) {
	for _, mx := range []pack{{Bits: 4, Group: 32, Mode: kernels.MXFP4},
		{Bits: 8, Group: 32, Mode: kernels.MXFP8}} {
		mode := mx.Mode.String()
		for _, entry := range []string{
			fmt.Sprintf(`"group_size": 32, "bits": %d, "mode": %q`, mx.Bits, mode),
			fmt.Sprintf(`"mode": %q`, mode)} {
			c, err := ParseConfig([]byte(`{"model_type": "m", "quantization": {` + entry + `,
				"a": {"bits": 8, "group_size": 64}, "b": {"mode": "affine", "bits": 6}, "c": {"mode": "` +
				mode + `"}, "d": false}}`))
			if err != nil {
				t.Fatal(err)
			}
			for name, want := range map[string]pack{"a": {Bits: 8, Group: 64}, "b": {Bits: 6},
				"c": mx, "d": {}, "unnamed": mx} {
				if got := c.Quantization.of(name); got != want {
					t.Errorf("%s, %s: got %+v, expected %+v", entry, name, got, want)
				}
			}
			if s := c.Quantization.String(); s != mode {
				t.Errorf("String() = %q, expected %s", s, mode)
			}
		}
		c, err := ParseConfig([]byte(`{"model_type": "m", "quantization": {"bits": 6, "group_size": 64, "a": {"mode": "` +
			mode + `"}}}`))
		if err != nil || c.Quantization.of("a") != mx {
			t.Errorf("%s as an exception: got %+v (%v), expected %+v", mode,
				c.Quantization.of("a"), err, mx)
		}
	}
}

// TestUnsupportedQuantization checks that the Config comes with the error, so that callers can look
// for a better reason.
func TestUnsupportedQuantization(t *testing.T) {
	c, err := ParseConfig([]byte(
		`{"model_type": "m", "quantization_config": {"quant_method": "gptq"}}`))
	if err == nil || c == nil || c.ModelType != "m" {
		t.Errorf("got %+v, %v, expected both", c, err)
	}
}

// TestArchitectures checks that only those at the top level count, and that other values do not
// matter.
func TestArchitectures(t *testing.T) {
	for config, want := range map[string]string{
		`{"model_type": "m", "architectures": ["A", "B"]}`:                    "[A B]",
		`{"model_type": "m", "architectures": "A"}`:                           "[]",
		`{"model_type": "m", "architectures": null}`:                          "[]",
		`{"model_type": "m", "text_config": {"architectures": ["A"]}}`:        "[]",
		`{"model_type": "m", "architectures": [], "text_config": {"a": 1}}`:   "[]",
		`{"model_type": "m", "architectures": ["A"], "text_config": {"a":1}}`: "[A]",
	} {
		c, err := ParseConfig([]byte(config))
		if err != nil || fmt.Sprint(c.Architectures) != want {
			t.Errorf("%s: %v, %v, expected %s", config, c, err, want)
		}
	}
}

// TestConfigKeys checks that keys match exactly, and that numbers which JSON does not have matter
// only where they are read.
func TestConfigKeys(t *testing.T) {
	src := Source{FS: fstest.MapFS{"config.json": {Data: []byte("\uFEFF" + `{"model_type": "m",
		"Model_Type": "other", "hidden_size": 1, "Hidden_Size": 99, "time_step_limit": [0.0, Infinity],
		"nan": NaN, "text_config": {"intermediate_size": 2, "INTERMEDIATE_SIZE": 98, "low": -Infinity}}`)}}}
	c, err := src.Config()
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Hidden       int       `json:"hidden_size"`
		Intermediate int       `json:"intermediate_size"`
		Limit        []float32 `json:"time_step_limit"`
		Low          float64   `json:"low"`
	}
	if err := c.Decode(&got); err != nil || c.ModelType != "m" || got.Hidden != 1 ||
		got.Intermediate != 2 || len(got.Limit) != 2 || !math.IsInf(float64(got.Limit[1]), 1) ||
		!math.IsInf(got.Low, -1) {
		t.Errorf("%q: got %+v, %v", c.ModelType, got, err)
	}
	var nan struct {
		NaN float64 `json:"nan"`
	}
	if err := c.Decode(&nan); err == nil || !strings.Contains(err.Error(),
		`nan is "NaN", expected a number`) {
		t.Errorf("NaN: got %v", err)
	}
}

func TestConfigFaults(t *testing.T) {
	for _, c := range []struct {
		json string
		code problem.Code
		says string
	}{
		{``, problem.ModelBroken, "JSON"},
		{`{"model_type": "m"`, problem.ModelBroken, "JSON"},
		{"\xff\xfe", problem.ModelBroken, "JSON"},
		{`[]`, problem.ModelBroken, "it is an array, expected an object"},
		{`null`, problem.UnknownArchitecture, "no model_type"},
		{`{}`, problem.UnknownArchitecture, "no model_type"},
		{`{"model_type": 3}`, problem.ModelBroken, "model_type is 3, expected a text"},
		{`{"model_type": "m", "text_config": []}`, problem.ModelBroken,
			"text_config is an array, expected an object"},
		{`{"model_type": "m", "quantization": 4}`, problem.ModelBroken,
			"quantization is 4, expected an object"},
		{`{"model_type": "m", "quantization_config": 4}`, problem.ModelBroken,
			": quantization_config is 4, expected an object"},
		{`{"model_type": "m", "text_config": {"quantization_config": []}}`, problem.ModelBroken,
			": text_config.quantization_config is an array, expected an object"},
		{`{"model_type": "m", "quantization": {"quant_method": "awq", "bits": "4"}}`,
			problem.ModelBroken, `: quantization.bits is "4", expected an integer`},
		{`{"model_type": "m", "quantization_config": {"quant_method": "gptq"}}`,
			problem.UnknownArchitecture, ": it has no bits, expected 2, 3, 4 or 8."},
		{`{"model_type": "m", "quantization": {"group_size": 16}}`, problem.UnknownArchitecture,
			"config.json has groups of 16 for all weights, expected"},
		{`{"model_type": "m", "quantization": {"bits": 7}}`, problem.UnknownArchitecture,
			"config.json has 7 bits for all weights, expected"},
		{`{"model_type": "m", "quantization_config": {"quant_method": "compressed-tensors",
			"format": "pack-quantized", "config_groups": {"a": {"targets": ["Linear"],
			"weights": {}}}}}`, problem.UnknownArchitecture,
			"its weights have no num_bits and no type, expected integers of 2"},
		{`{"model_type": "m", "quantization_config": {"quant_method": "modelopt"}}`,
			problem.UnknownArchitecture, "it has no quant_algo, expected FP8 or NVFP4"},
		{`{"model_type": "m", "quantization": {"load_in_4bit": true}}`,
			problem.UnknownArchitecture, "Headroom cannot run: config.json has load_in_4bit."},
		{`{"model_type": "m", "quantization": {"bits": "four"}}`, problem.ModelBroken,
			`bits is "four", expected an integer`},
		{`{"model_type": "m", "quantization": {"bits": 4, "group_size": 64, "x": {"bits": []}}}`,
			problem.ModelBroken, "quantization of x"},
		{`{"model_type": "m", "quantization": {"bits": 7, "group_size": 64}}`,
			problem.UnknownArchitecture, "7 bits in groups of 64"},
		{`{"model_type": "m", "quantization": {"bits": 4, "group_size": 16}}`,
			problem.UnknownArchitecture, "4 bits in groups of 16"},
		{`{"model_type": "m", "quantization": {"bits": 4, "group_size": 64, "x": {"bits": 1}}}`,
			problem.UnknownArchitecture, "1 bit in groups of 64 for x"},
		{`{"model_type": "m", "quantization": {"bits": 0, "group_size": 64}}`,
			problem.ModelBroken, "bits is 0 for all weights"},
		{`{"model_type": "m", "quantization": {"bits": 4, "group_size": 0}}`,
			problem.ModelBroken, "group_size is 0 for all weights"},
		{`{"model_type": "m", "quantization": {"bits": 4, "group_size": 64, "x": {"bits": 0}}}`,
			problem.ModelBroken, "bits is 0 for x"},
		{`{"model_type": "m", "quantization": {"bits": -4, "group_size": 64}}`,
			problem.ModelBroken, "bits is -4 for all weights"},
		{`{"model_type": "m", "quantization": {"bits": 4.5, "group_size": 64}}`,
			problem.ModelBroken, "4.5"},
		{`{"model_type": "m", "quantization": {"bits": 4, "group_size": 32, "mode": "mxfp8"}}`,
			problem.UnknownArchitecture, `4 bits in groups of 32 for all weights, expected 8 bits`},
		{`{"model_type": "m", "quantization": {"bits": 8, "group_size": 64, "mode": "mxfp8"}}`,
			problem.UnknownArchitecture, `8 bits in groups of 64 for all weights`},
		{`{"model_type": "m", "quantization": {"bits": 4, "group_size": 64, "mode": "mxfp4"}}`,
			problem.UnknownArchitecture, `4 bits in groups of 64 for all weights`},
		{`{"model_type": "m", "quantization": {"bits": 3, "group_size": 32, "mode": "mxfp4"}}`,
			problem.UnknownArchitecture, `3 bits in groups of 32 for all weights`},
		{`{"model_type": "m", "quantization": {"bits": 4, "group_size": 32, "mode": 4}}`,
			problem.ModelBroken, `mode`},
		{`{"model_type": "m", "quantization": {"bits": 4, "group_size": 64, "x": {"mode": "nvfp6"}}}`, problem.UnknownArchitecture, `has mode "nvfp6" for x`},
		{`{"model_type": "m", "quantization_config": {"quant_method": "gptq", "bits": 5, "group_size": 128}}`,
			problem.UnknownArchitecture, `variant of GPTQ: it has 5 bits, expected 2, 3, 4 or 8. Use`},
		{`{"model_type": "m", "quantization_config": {"quant_method": "gptq", "bits": 4, "checkpoint_format": "marlin"}}`,
			problem.UnknownArchitecture, `config.json has the format "marlin", expected gptq or gptq_v2`},
		{`{"model_type": "m", "quantization_config": {"quant_method": "gptq", "bits": 4, "is_marlin_format": true}}`,
			problem.UnknownArchitecture, `it is packed for Marlin`},
		{`{"model_type": "m", "quantization_config": {"quant_method": "gptq", "bits": "4"}}`,
			problem.ModelBroken, `bits is "4", expected an integer`},
		{`{"model_type": "m", "quantization_config": {"quant_method": "gptq", "bits": 4, "dynamic": {"x": 3}}}`,
			problem.ModelBroken, `expected an object`},
		{`{"model_type": "m", "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 100]}}`,
			problem.UnknownArchitecture, `variant of FP8: its blocks are 128 x 100, expected a number`},
		{`{"model_type": "m", "quantization_config": {"quant_method": "fp8", "weight_block_size": []}}`,
			problem.UnknownArchitecture, `its blocks are empty`},
		{`{"model_type": "m", "quantization_config": {"quant_method": "fp8", "weight_block_size": [0, -128]}}`,
			problem.UnknownArchitecture, `its blocks are 0 x -128`},
		{`{"model_type": "m", "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 9223372036854775776]}}`,
			problem.UnknownArchitecture, `its blocks are 128 x 9223372036854775776`},
		{`{"model_type": "m", "quantization_config": {"quant_method": "fp8", "weight_block_size": 128}}`,
			problem.ModelBroken, `weight_block_size`},
		{`{"model_type": "m", "quantization_config": {"quant_method": "fp8", "fmt": "e5m2"}}`,
			problem.UnknownArchitecture, `has the fmt "e5m2", expected e4m3. Use an MLX conversion`},
		{`{"model_type": "m", "quantization_config": {"quant_method": "modelopt", "quant_algo": "W4A8_AWQ"}}`,
			problem.UnknownArchitecture, `variant of ModelOpt: its quant_algo is "W4A8_AWQ", expected`},
		{`{"model_type": "m", "quantization_config": {"quant_method": "modelopt", "quantization": 3}}`,
			problem.ModelBroken, `quantization`},
		{`{"model_type": "m", "quantization": {"mode": "nvfp4", "group_size": 32}}`,
			problem.UnknownArchitecture, `expected 4 bits in groups of 16 for nvfp4`},
		{`{"model_type": "m", "quantization_config": {"quant_method": "AWQ", "bits": 3}}`,
			problem.UnknownArchitecture, `variant of AWQ: it has 3 bits, expected 4. Use an MLX`},
		{`{"model_type": "m", "quantization_config": {"quant_method": "awq", "version": "GEMV"}}`,
			problem.UnknownArchitecture, `config.json has the version "gemv", expected gemm`},
		{`{"model_type": "m", "quantization_config": {"quant_method": "AQLM"}}`,
			problem.UnknownArchitecture, `This model is quantized with AQLM, which`},
		{`{"model_type": "m", "quantization_config": {"load_in_8bit": true}}`,
			problem.UnknownArchitecture, `This model is quantized with bitsandbytes, which`},
		{`{"model_type": "m", "quantization_config": {"quant_method": "` +
			strings.Repeat("x", 1<<10) + `"}}`, problem.UnknownArchitecture,
			strings.Repeat("x", 200) + "…"},
	} {
		_, err := ParseConfig([]byte(c.json))
		if p := problem.From(err); err == nil || p.Code != c.code ||
			!strings.Contains(err.Error(), c.says) ||
			strings.Count(err.Error(), "Download or convert the model again.") > 1 {
			t.Errorf("%s: got %v, expected %s saying %q", c.json, err, c.code, c.says)
		}
	}
}

// TestDamagedFileIsNamedOnce: the message and the reason are shown together.
func TestDamagedFileIsNamedOnce(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "model.safetensors")
	if err := os.WriteFile(file, []byte("cut"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Source{Dir: dir}.tensors()
	p := problem.From(err)
	if text := p.Message + ": " + p.Why; p.Code != problem.ModelBroken ||
		strings.Count(text, dir) != 1 || !strings.Contains(p.Why, file) {
		t.Errorf("%s: %q, expected the path once, in the reason", p.Code, text)
	}
}
