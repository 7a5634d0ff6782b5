package commands

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"headroom/app/bench"
)

const tinyShape = `{"model_type": "qwen3", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2,
	"num_key_value_heads": 1, "head_dim": 64, "vocab_size": 256, "rms_norm_eps": 1e-6, "rope_theta": 1e6, "max_position_embeddings": 4096,
	"tie_word_embeddings": true, "attention_bias": false, "hidden_act": "silu", "quantization": {"group_size": 64, "bits": 4}}`

// TestBenchTable measures two groups in child processes and writes all four files.
func TestBenchTable(t *testing.T) {
	home := isolate(t)
	t.Setenv("TMPDIR", home)
	in := func(name string) string { return filepath.Join(home, name) }
	read := func(name string) string {
		text, err := os.ReadFile(in(name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for name, text := range map[string]string{"tiny.json": tinyShape,
		"README.md": "a\n<!-- bench: the table that `headroom bench --readme` writes -->\n" +
			"<!-- bench: end of the table -->\nb\n"} {
		if err := os.WriteFile(in(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	code, out, errOut := headroom("", "bench", "--only=threads,load", "--device=cpu", "--threads=2",
		"--quick", "--prompts=32", "--contexts=64,8192", "--tokens=4", "--repeat=4",
		"--dense="+in("tiny.json"), "--moe="+in("tiny.json"), "--json="+in("out.json"),
		"--markdown="+in("out.md"), "--go-bench="+in("out.txt"), "--readme="+in("README.md"))
	if code != 0 || !strings.Contains(out, "| **tiny** |") ||
		!strings.Contains(out, "to the first token, warm |") ||
		strings.Contains(out, "decode at context") {
		t.Fatalf("exit %d, %s%s", code, out, errOut)
	}
	var report bench.Report
	if err := json.Unmarshal([]byte(read("out.json")), &report); err != nil {
		t.Fatal(err)
	}
	if report.Format != bench.Format || len(report.Parts) != 2 ||
		report.Parts[0].Group != "threads" || report.Parts[1].Group != "load" ||
		report.Parts[0].Ceilings.Int8Ops <= 0 {
		t.Errorf("%+v", report)
	}
	if n := len(report.Parts[0].Rows[0].Samples); n != 2 {
		t.Errorf("--quick with --repeat=4 took %d samples, want 2: a third, rounded up", n)
	}
	if read("out.md") != out || !strings.Contains(read("README.md"), out) ||
		!strings.HasPrefix(read("README.md"), "a\n") ||
		!strings.HasSuffix(read("README.md"), "\nb\n") {
		t.Errorf("the files differ from the printed table\n%s", out)
	}
	if lines := read("out.txt"); strings.Count(lines, "BenchmarkHeadroom/load 1 ") != 2 {
		t.Errorf("not two samples of load in\n%s", lines)
	}
	if left, _ := filepath.Glob(in("headroom-bench-*")); len(left) != 0 {
		t.Errorf("files left behind: %v", left)
	}
}

// TestHelpNamesGoBench: build/bench looks for the flag in a revision's help before it compares with
// that revision.
func TestHelpNamesGoBench(t *testing.T) {
	script, err := os.ReadFile("../../build/bench")
	if err != nil {
		t.Fatal(err)
	}
	asked := regexp.MustCompile(`"\$dir/base" (.*--help)`).FindStringSubmatch(string(script))
	if asked == nil {
		t.Fatal("build/bench runs no --help")
	}
	if code, out, errOut := headroom("", strings.Fields(asked[1])...); code != 0 ||
		!strings.Contains(out, "--go-bench") {
		t.Errorf("headroom %s: exit %d, %s%s", asked[1], code, out, errOut)
	}
}

// TestBenchTableRefuses: flags that cannot be measured are refused before anything is measured.
func TestBenchTableRefuses(t *testing.T) {
	isolate(t)
	for _, args := range [][]string{{"--contexts=64,32"}, {"--prompts=0"}, {"--streams=-1"},
		{"--tokens=0"}, {"--dense=nosuch"}} {
		if code, out, errOut := headroom("",
			append([]string{"bench", "--device=cpu"}, args...)...); code != 1 || out != "" {
			t.Errorf("%v: exit %d, %s%s", args, code, out, errOut)
		}
	}
	if code, _, _ := headroom("", "bench", "--only=everything"); code != 2 {
		t.Errorf("an unknown group: exit %d", code)
	}
}
