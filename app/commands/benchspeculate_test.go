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

// TestBenchSpeculate measures a tiny model, prints the table, and the same figures as JSON.
func TestBenchSpeculate(t *testing.T) {
	home := isolate(t)
	tiny := filepath.Join(home, "tiny.json")
	if err := os.WriteFile(tiny, []byte(tinyShape), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"bench", "speculate", tiny, "--acceptance=0,1", "--depths=2,1",
		"--tokens=40", "--passes=3", "--threads=1", "--device=cpu", "--processor"}
	code, out, errOut := headroom("", args...)
	for _, want := range []string{`tiny, random weights; .*CPU.*, 1 thread.*; drafts cost no time`,
		`right +0 % +100 %`, `plain +\d+\.\d  1\.00 x +\d+\.\d  1\.00 x`,
		`1 draft +\d+\.\d  \d\.\d\d x +\d+\.\d  \d\.\d\d x`,
		`2 drafts +\d+\.\d  \d\.\d\d x +\d+\.\d  \d\.\d\d x`, `best  `,
		`processor ms per token +0 % +100 %`, `plain +\d+\.\d\d  1\.00 x`} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("the output lacks %q", want)
		}
	}
	if code != 0 || strings.Index(out, "1 draft") > strings.Index(out, "2 drafts") ||
		!strings.Contains(errOut, "tiny: 0 of 3 passes\n") {
		t.Fatalf("exit %d, %s%s", code, out, errOut)
	}
	code, out, errOut = headroom("", append(args, "--json")...)
	var results []bench.SpeculationResult
	if err := json.Unmarshal([]byte(out), &results); err != nil || code != 0 {
		t.Fatalf("exit %d, %v, %s%s", code, err, out, errOut)
	}
	rows := results[0].Rows
	if len(results) != 1 || len(rows) != 6 || rows[2].Right != 0 || rows[2].Passes < 3 ||
		rows[5].Right < 6 || rows[5].Depth != 2 || rows[5].Acceptance != 1 ||
		rows[5].ProcessorSeconds <= 0 || rows[5].ProcessorRatio <= 0 ||
		rows[5].ProcessorRatio >= rows[2].ProcessorRatio {
		t.Errorf("got %s", out)
	}
	for _, c := range []struct{ flag, want string }{
		{"--acceptance=1.5", "--acceptance is 1.5, expected 0 to 1"},
		{"--acceptance=NaN", "--acceptance is NaN, expected 0 to 1"},
		{"--depths=9", "--depths is 9, expected 1 to 8"},
		{"--depths=0", "--depths is 0, expected 1 to 8"},
		{"--tokens=9", "--tokens is 9, expected at least 2 more than --depths"},
		{"--context=0", "--context is 0, expected 1 or more"},
		{"--passes=0", "--passes is 0, expected 1 or more"},
		{"--device=abacus", "--device"},
		{"--threads=-1", "--threads is -1, expected 0 to 1024"},
	} {
		if code, _, errOut := headroom("", "bench", "speculate", c.flag); code != 2 ||
			!strings.Contains(errOut, c.want) {
			t.Errorf("%s: exit %d, %s", c.flag, code, errOut)
		}
	}
}
