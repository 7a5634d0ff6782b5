package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headroom/app/bench"
)

// TestMain lets the test binary act as headroom and as llama-bench. It logs its arguments and
// prints speeds that grow by one with each run.
func TestMain(m *testing.M) {
	dir := os.Getenv("BENCHPEER_FAKE")
	if dir == "" {
		os.Exit(m.Run())
	}
	log, _ := os.ReadFile(filepath.Join(dir, "log"))
	_ = os.WriteFile(filepath.Join(dir, "log"), append(log, strings.Join(os.Args[1:], " ")+"\n"...),
		0o600)
	args := strings.Join(os.Args[1:], " ")
	if strings.HasPrefix(args, "bench ") {
		fakeHeadroom(float64(strings.Count(string(log), "bench ")))
	} else {
		fakePeer(args, float64(strings.Count(string(log), "-fa 1")))
	}
	os.Exit(0)
}

func fakeHeadroom(round float64) {
	r := bench.Report{Format: bench.Format, Parts: []bench.Part{{Device: "CPU, abacus"}}}
	for _, id := range []string{"prefill-128", "prefill-512", "prefill-2048", "decode-0",
		"decode-4096", "append-4096"} {
		r.Parts[0].Rows = append(r.Parts[0].Rows,
			bench.Row{ID: id, Samples: []float64{1, 100 + round}}) // the first one is cold
	}
	text, _ := json.Marshal(r)
	for _, a := range os.Args {
		if name, ok := strings.CutPrefix(a, "--json="); ok {
			_ = os.WriteFile(name, text, 0o600)
		}
	}
}

func fakePeer(args string, round float64) {
	speed := 50.0 // without flash attention
	if strings.Contains(args, "-fa 1") {
		speed = 40
		if strings.Contains(args, "-d 4096") {
			speed = 80
		}
	}
	result := func(prompt, answer, depth int) string {
		return fmt.Sprintf(`{"build_commit": "abc123", "model_type": "qwen3 0.6B Q4_0",
			"model_size": 340000000, "model_n_params": 596049920,
			"n_threads": 2, "flash_attn": true, "n_prompt": %d, "n_gen": %d, "n_depth": %d,
			"avg_ns": 1, "avg_ts": %g, "samples_ts": [1]}`,
			prompt, answer, depth, speed+round/1000)
	}
	fmt.Println("load_backend: loaded CPU backend")
	if strings.Contains(args, "-d 4096") {
		fmt.Printf("[\n%s\n]\n", result(0, 64, 4096))
		return
	}
	fmt.Printf("[\n%s,\n%s,\n%s,\n%s\n]\n", result(128, 0, 0), result(512, 0, 0),
		result(2048, 0, 0), result(0, 64, 0))
}

// TestCompare runs both fakes. The first round must not count, and the ratio must use llama.cpp's
// better result.
func TestCompare(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("BENCHPEER_FAKE", dir)
	c := comparison{headroom: os.Args[0], peer: os.Args[0], model: "m.gguf", shape: "qwen3-0.6b",
		config: "qwen3-0.6b.json", weights: 335e6,
		peerKV: "q8_0", threads: 2, rounds: 3, depth: 4096}
	var out bytes.Buffer
	if err := c.run(context.Background(), &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	// Headroom's measured runs gave 101, 102 and 103.
	for _, want := range []string{"| prefill-512 | 102.0 | 50.0 | 40.0 | 2.04 x |",
		"| decode-4096 | 102.0 | 50.0 | 80.0 | 1.27 x |",
		"weights 0.34 GB", "llama.cpp abc123: qwen3 0.6B Q4_0, 0.34 GB, 596 million",
		"CPU, abacus"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	log, _ := os.ReadFile(filepath.Join(dir, "log"))
	lines := strings.Split(strings.TrimSpace(string(log)), "\n")
	if len(lines) != 4*5 {
		t.Fatalf("%d runs, expected five in each of four rounds:\n%s", len(lines), log)
	}
	for i, want := range []string{"--threads=2",
		"-p 128,512,2048 -n 64 -m m.gguf -t 2 -ngl 0 -fa 0 -r 1 -o json -ctk q8_0",
		"-d 4096 -m m.gguf -t 2 -ngl 0 -fa 0",
		"-fa 1 -r 1 -o json -ctk q8_0 -ctv q8_0", "-d 4096 -m m.gguf -t 2 -ngl 0 -fa 1"} {
		if !strings.Contains(lines[5+i], want) {
			t.Errorf("run %d of a round: %s, expected %s", i, lines[5+i], want)
		}
	}
	if strings.Contains(lines[6], "-ctv") {
		t.Errorf("quantizes values without flash attention: %s", lines[6])
	}
}

func TestParseRefuses(t *testing.T) {
	for name, text := range map[string]string{"nothing": "", "an error": "error: no such model",
		"cut": `[{"n_prompt": 128`, "no speed": `[{"n_prompt": 128}]`,
		"both":             `[{"n_prompt": 128, "n_gen": 64, "avg_ts": 5}]`,
		"a negative speed": `[{"n_gen": 64, "avg_ts": -5}]`} {
		if f, _, err := parse([]byte(text)); err == nil {
			t.Errorf("%s: %v", name, f)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`[{"n_prompt": 128, "avg_ts": 5}]`))
	f.Fuzz(func(t *testing.T, text []byte) {
		figures, _, err := parse(text)
		for id, speeds := range figures {
			if err == nil && (len(speeds) == 0 || speeds[0] <= 0) {
				t.Errorf("%s: %v", id, speeds)
			}
		}
	})
}

// TestFewSamples: a row with one sample keeps it, and the median of none is no number.
func TestFewSamples(t *testing.T) {
	got := speeds([]bench.Row{{ID: "none"}, {ID: "one", Samples: []float64{3}},
		{ID: "three", Samples: []float64{9, 1, 2}}})
	for id, want := range map[string]float64{"one": 3, "three": 1.5} {
		if m := median(got[id]); m != want {
			t.Errorf("%s: the median is %g, expected %g", id, m, want)
		}
	}
	if m := median(got["none"]); m == m {
		t.Errorf("the median of no sample is %g", m)
	}
}
