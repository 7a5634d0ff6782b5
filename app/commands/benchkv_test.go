package commands

import (
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"headroom/engine"
)

// TestBenchKV checks the documented sizes of Qwen3.5-35B-A3B, calculated from its shape.
func TestBenchKV(t *testing.T) {
	isolate(t)
	code, out, errOut := headroom("", "bench", "kv")
	if code != 0 || errOut != "" {
		t.Fatalf("exit %d: %s", code, errOut)
	}
	for _, row := range []string{
		`qwen3_5_moe-35b-a3b \(qwen3_5_moe\), trained for 262144 tokens`,
		`--state-format f32 +30 x recurrent, .* 2195456 +65863680`,
		`--state-format bf16 +30 x recurrent, .* 1097728 +32931840`,
		`format +bytes per token +conversation of 8k +32k +128k +256k`,
		// 160 MB + 62.8 MB of state at 8k, 640 MB + 62.8 MB at 32k
		`--kv-format f16 +20480 +222\.8 MB +702\.8 MB +2\.56 GB +5\.06 GB`,
		`the default +9664 +138\.3 MB +364\.8 MB +1\.24 GB +2\.42 GB`,
		`--kv-format q4_0 +5760 +107\.8 MB +242\.8 MB +782\.8 MB +1\.47 GB`,
		`the default +4 x attention, 2 heads of 256 +8-bit g64 and 8-bit g32 +1120`,
		` +6 x attention, 2 heads of 256 +8-bit g64 and 4-bit g32 +864`,
	} {
		if !regexp.MustCompile(`(?m)^` + row + `\b`).MatchString(out) {
			t.Errorf("no line reads %s:\n%s", row, out)
		}
	}
	if strings.Contains(out, "these flags") {
		t.Errorf("a row for flags that were not given:\n%s", out)
	}
}

// TestBenchKVSources checks that a config is found by shape, file, folder and name, with any
// quantization, and that errors say what is wrong.
func TestBenchKVSources(t *testing.T) {
	dir := isolate(t)
	put := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	config, err := shapes.ReadFile("shapes/qwen3-0.6b.json")
	if err != nil {
		t.Fatal(err)
	}
	fp8 := regexp.MustCompile(`"quantization": \{[^}]*\}`).ReplaceAllString(string(config),
		`"quantization_config": {"quant_method": "fp8"}`)
	file := put("model/config.json", fp8)
	for _, name := range []string{"qwen3-0.6b", file, filepath.Dir(file)} {
		code, out, errOut := headroom("", "bench", "kv", name, "--kv-bits", "6")
		// 28 layers of 8 heads of 128, in bytes: 24 layers take 96 + 2*4 for K and 96 + 4*4 for V,
		// the 4 boundary layers 136 and 144
		if code != 0 || !regexp.MustCompile(`(?m)^these flags +50432 `).MatchString(out) {
			t.Errorf("%s: exit %d, %s%s", name, code, out, errOut)
		}
	}
	// 8,192 tokens: 5,120 take 20,480 bytes each, the others 5,760; plus 62.8 MB of state
	start := regexp.MustCompile(
		`(?m)^these flags +5760 \(20480 for the first 5120 tokens\) +179\.7 MB `)
	if code, out, _ := headroom("", "bench", "kv", "--kv-format", "q4_0", "--quantized-kv-start",
		"5000"); code != 0 || !start.MatchString(out) {
		t.Errorf("--quantized-kv-start: exit %d, %s", code, out)
	}
	if code, out, _ := headroom("", "bench", "kv", "headroom-demo", "qwen3_5-27b"); code != 0 ||
		strings.Count(out, "trained for") != 2 {
		t.Errorf("two models: exit %d, %s", code, out)
	}
	for name, says := range map[string]string{
		put("bad.json", "{"): "not valid JSON", put("list.json", "[]"): "it is an array",
		put("other.json", `{"model_type": "perceptron"}`):      "perceptron",
		put("big.json", strings.Repeat(" ", maxConfigBytes+1)): "16777217 bytes",
		dir: "no config.json", "nosuch": `no model "nosuch"`,
	} {
		if code, out, errOut := headroom("", "bench", "kv", name); code != 1 || out != "" ||
			!strings.Contains(errOut, says) {
			t.Errorf("%s: exit %d, %q, %q, expected %q", name, code, out, errOut, says)
		}
	}
}

// TestBenchSpeed: models and flags may come in any order.
func TestBenchSpeed(t *testing.T) {
	isolate(t)
	for _, args := range [][]string{{"bench", "speed", "--here", "--ceilings=1,1,1", "nosuch"},
		{"bench", "speed", "nosuch", "--here", "--ceilings=1,1,1"}} {
		if code, _, errOut := headroom("", args...); code != 1 ||
			!strings.Contains(errOut, `no model "nosuch"`) {
			t.Errorf("%v: exit %d, %s", args, code, errOut)
		}
	}
	tiny := filepath.Join(t.TempDir(), "tiny.json")
	if err := os.WriteFile(tiny, []byte(tinyShape), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"headroom-demo", tiny} {
		code, out, errOut := headroom("", "bench", "speed", name, "--here",
			"--ceilings=1e9,1e9,1e9", "--repeat=1", "--prefill=16", "--decode=0", "--tokens=4")
		if code != 0 || !regexp.MustCompile(`(?m)^ +prefill +16 +[\d.]+`).MatchString(out) ||
			!strings.Contains(out, "peak memory") {
			t.Errorf("%s: exit %d, %s%s", name, code, out, errOut)
		}
	}
}

// TestShapes checks that the help and the error for an unknown name list every embedded shape, that
// each is a model, and that some have the size of their published conversion to MLX.
func TestShapes(t *testing.T) {
	isolate(t)
	_, help, _ := headroom("", "bench", "speed", "--help")
	help = strings.Join(strings.Fields(help), " ") // it is wrapped
	_, _, unknown := headroom("", "bench", "speed", "nosuch", "--here", "--ceilings=1,1,1")
	gigabytes := map[string]float64{ // of the language model in 4 bits; gpt-oss in MXFP4 and 8 bits
		"gemma-3-4b": 2.18, "gemma-4-e4b": 4.23, "gpt-oss-20b": 12.1, "llama-3.2-3b": 1.81,
		"qwen3-0.6b":               0.335,
		"qwen3-coder-30b-a3b":      17.2,
		"qwen3-next-80b-16-layers": 15.2, // a third of 44.8, and two thirds of embeddings and head
	}
	billions := map[string]float64{ // parameters, as their model cards say
		"lfm2-8b-a1b": 8.3, "nemotron-3-nano-30b-a3b": 31.6,
	}
	files, err := shapes.ReadDir("shapes")
	if err != nil || len(files) < len(gigabytes) {
		t.Fatalf("%d shapes, expected at least %d, %v", len(files), len(gigabytes), err)
	}
	for _, f := range files {
		name := strings.TrimSuffix(f.Name(), ".json")
		if !strings.Contains(help, name+",") && !strings.Contains(help, name+".") {
			t.Errorf("the help does not name %s: %s", name, help)
		}
		if !strings.Contains(unknown, name) {
			t.Errorf("the error does not name %s: %s", name, unknown)
		}
		src, err := benchSource(strings.ToUpper(name))
		if err != nil {
			t.Fatal(err)
		}
		d, err := engine.Describe(src, engine.Options{ContextTokens: 64, MaxSequences: 1})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got, want := float64(d.SizeBytes)/1e9, gigabytes[name]
		if delete(gigabytes, name); want != 0 && math.Abs(got/want-1) > 0.01 {
			t.Errorf("%s has weights of %.2f GB, expected %.2f", name, got, want)
		}
		got, want = float64(d.Parameters)/1e9, billions[name]
		if delete(billions, name); want != 0 && math.Abs(got/want-1) > 0.01 {
			t.Errorf("%s has %.2f billion parameters, expected %.2f", name, got, want)
		}
	}
	if len(gigabytes)+len(billions) > 0 {
		t.Errorf("no shapes for %v %v", gigabytes, billions)
	}
}
