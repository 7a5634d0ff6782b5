package commands

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestBenchSnapKV measures a tiny model, prints the table, and the same figures as JSON.
func TestBenchSnapKV(t *testing.T) {
	tiny := filepath.Join(isolate(t), "tiny.json")
	shape := strings.Replace(tinyShape, `"max_position_embeddings": 4096`,
		`"max_position_embeddings": 16384`, 1)
	if err := os.WriteFile(tiny, []byte(shape), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"bench", "snapkv", tiny, "--contexts=1200,16384", "--tokens=64", "--passes=5",
		"--threads=1"}
	code, out, errOut := headroom("", args...)
	row := regexp.MustCompile(`(?m)^ +16384 +\d+\.\d +\d+\.\d +\d+\.\d\d x +\d+\.\d$`)
	if code != 0 || !strings.Contains(out, "64 positions selected") || !row.MatchString(out) ||
		!strings.Contains(errOut, "tiny: context 1200\n") {
		t.Fatalf("exit %d, %s%s", code, out, errOut)
	}
	code, out, errOut = headroom("", append(args, "--json")...)
	var results []snapKVResult
	if err := json.Unmarshal([]byte(out), &results); err != nil || code != 0 ||
		len(results) != 1 || len(results[0].Rows) != 2 {
		t.Fatalf("exit %d, %v, %s%s", code, err, out, errOut)
	}
	// At the end of 16,384 tokens a pass reads 20 times as many positions without a selection. It
	// took 7 times as long.
	if r := results[0].Rows[1]; r.Context != 16384 || r.Selected != 64 || r.Ratio < 2.5 {
		t.Errorf("got %+v, expected a pass that is faster with a selection", r)
	}
	for flag, want := range map[string]string{
		"--contexts=1000000000000": "a prompt of 1000000000000 tokens, the model's context has",
		"--contexts=1048576":       "a prompt of 1048576 tokens, the model's context has",
		"--contexts=1200,17000":    "a prompt of 17000 tokens, the model's context has",
	} {
		code, _, errOut := headroom("", "bench", "snapkv", tiny, "--tokens=64", flag)
		if code != 1 || !strings.Contains(errOut, want) {
			t.Errorf("%s: exit %d, %s", flag, code, errOut)
		}
	}
	for _, c := range []struct{ flag, want string }{
		{"--contexts=4500", "--contexts is 4500, expected at least 1024 more than --tokens"},
		{"--tokens=0", "--tokens is 0, expected 1 or more"},
		{"--passes=0", "--passes is 0, expected 1 or more"},
		{"--threads=-1", "--threads is -1, expected 0 to 1024"},
	} {
		if code, _, errOut := headroom("", "bench", "snapkv", c.flag); code != 2 ||
			!strings.Contains(errOut, c.want) {
			t.Errorf("%s: exit %d, %s", c.flag, code, errOut)
		}
	}
}
