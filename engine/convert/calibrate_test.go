package convert

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"headroom/app/demo"
	"headroom/engine/problem"
	"headroom/engine/safetensors"
)

// withTokenizer adds a tokenizer to the model in a folder. Each digit is one token.
func withTokenizer(t *testing.T, dir string) string {
	t.Helper()
	data, err := fs.ReadFile(demo.Files, "model/tokenizer.json")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "tokenizer.json"), data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// digits writes a text of so many tokens, and returns its path.
func digits(t *testing.T, seed uint64, tokens int) string {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	text := make([]byte, tokens)
	for i := range text {
		text[i] = byte('0' + r.IntN(10))
	}
	path := filepath.Join(t.TempDir(), "text.txt")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// llama writes an original that can be run.
func runnable(t *testing.T) string {
	t.Helper()
	same := func(all []safetensors.Tensor) []safetensors.Tensor { return all }
	return withTokenizer(t, edited(t, writeLlama(t, 2, 96),
		map[string]any{"max_position_embeddings": 4096}, same))
}

// change returns how far the hidden states that the head gets are from those of another model.
func change(t *testing.T, a, b, text string) (sum float64) {
	t.Helper()
	x, y := hiddenOf(t, a, text), hiddenOf(t, b, text)
	for i := range x {
		for j := range x[i] {
			d := float64(x[i][j] - y[i][j])
			sum += d * d
		}
	}
	return math.Sqrt(sum)
}

func hiddenOf(t *testing.T, folder, text string) [][]float32 {
	t.Helper()
	o := openForText(t, folder, text)
	defer o.close()
	all, err := o.hidden()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestCalibrate: the result has the layout of a plain conversion, computes what the original does
// more closely for other text, and is the same on any number of threads.
func TestCalibrate(t *testing.T) {
	source, text, other := runnable(t), digits(t, 1, 1500), digits(t, 2, 1100)
	folder := func(o Options) string {
		o.Quantize, o.Bits = true, 3
		dest := filepath.Join(t.TempDir(), "dest")
		if _, err := Run(t.Context(), at(source), dest, o); err != nil {
			t.Fatal(err)
		}
		return dest
	}
	plain := folder(Options{})
	calibrated := folder(Options{Calibrate: text, threads: 1})
	equalFiles(t, files(t, folder(Options{Calibrate: text, threads: 3})), files(t, calibrated))
	a, b := files(t, plain), files(t, calibrated)
	for name := range a {
		if isWeights := name == "model.safetensors"; (a[name] == b[name]) == isWeights {
			t.Errorf("%s is equal: %v", name, !isWeights)
		}
	}
	if len(a) != len(b) || len(a["model.safetensors"]) != len(b["model.safetensors"]) {
		t.Errorf("the folders have %d and %d files", len(a), len(b))
	}
	if p, c := change(t, source, plain, other), change(t, source, calibrated, other); c > 0.9*p {
		t.Errorf("calibrated, the hidden states change by %g, plain by %g", c, p)
	}
}

// TestCalibrateResume: a conversion that was stopped while it was calibrated has the same result,
// with the matrices that were packed, unless they have changed.
func TestCalibrateResume(t *testing.T) {
	source, text := runnable(t), digits(t, 1, 1200)
	for _, target := range []float64{0, 4} {
		o := Options{Quantize: true, Calibrate: text, TargetBPW: target}
		whole := filepath.Join(t.TempDir(), "whole")
		if _, err := Run(t.Context(), at(source), whole, o); err != nil {
			t.Fatal(err)
		}
		for _, damage := range []bool{false, true} {
			dest, packed := filepath.Join(t.TempDir(), "dest"), 0
			ctx, cancel := context.WithCancel(t.Context())
			stopped := o
			stopped.Calibrated = func(int64, int64) {
				if packed++; packed == 5 {
					cancel()
				}
			}
			if _, err := Run(ctx, at(source), dest, stopped); !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			if damage {
				path := filepath.Join(dest, calibratedFile)
				data := read(t, path)
				for i := range data {
					data[i] ^= 1
				}
				if err := os.WriteFile(path, data, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			again, more := o, 0
			again.Calibrated = func(int64, int64) { more++ }
			if _, err := Run(t.Context(), at(source), dest, again); err != nil {
				t.Fatal(err)
			}
			if all := 15; more != all && damage || more >= all && !damage {
				t.Errorf("damage %v: %d matrices were packed again", damage, more)
			}
			equalFiles(t, files(t, dest), files(t, whole))
		}
	}
}

// TestCalibrateFamilies calibrates every tiny model, in the layout of Hugging Face or packed by
// others. The text reaches all matrices, and the result can be run.
func TestCalibrateFamilies(t *testing.T) {
	tiny := "../models/testdata/tiny"
	names := []string{"deepseek_v3_original", "gpt_oss", "phi3", "qwen3_5_moe_text"}
	if os.Getenv("HEADROOM_LONG") != "" {
		folders, err := os.ReadDir(tiny)
		if err != nil {
			t.Fatal(err)
		}
		names = nil
		for _, f := range folders {
			names = append(names, f.Name())
		}
	}
	text := digits(t, 1, 1100)
	// These have matrices whose rows the engine rearranges, so it multiplies with others.
	rearranged := map[string]bool{"deepseek_v2": true, "qwen3_next": true}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			source := t.TempDir()
			if err := os.CopyFS(source, os.DirFS(filepath.Join(tiny, name))); err != nil {
				t.Fatal(err)
			}
			dest := filepath.Join(t.TempDir(), "dest")
			o := Options{Quantize: true, Bits: 4, Group: 32, Calibrate: text,
				Warn: func(text string) {
					if !strings.HasPrefix(text, blockLost) && !rearranged[name] {
						t.Error(text)
					}
				}}
			if _, err := Run(t.Context(), at(withTokenizer(t, source)), dest, o); err != nil {
				t.Fatal(err)
			}
			if exists(dest+".plain") || exists(dest, calibratedFile) {
				t.Error("the files of the calibration were not removed")
			}
			loss := textLoss(t, dest, text)
			if !(loss < 50) { // the models are not trained
				t.Errorf("the loss is %g", loss)
			}
		})
	}
}

// TestCalibrateUnpacked: a model of another layout is unpacked first. If the conversion is stopped,
// the plain model stays for the next run.
func TestCalibrateUnpacked(t *testing.T) {
	source := t.TempDir()
	if err := os.CopyFS(source, os.DirFS("../models/testdata/tiny/llama_awq")); err != nil {
		t.Fatal(err)
	}
	withTokenizer(t, source)
	o := Options{Quantize: true, Bits: 3, Group: 32, Calibrate: digits(t, 1, 1100)}
	whole := filepath.Join(t.TempDir(), "whole")
	if _, err := Run(t.Context(), at(source), whole, o); err != nil {
		t.Fatal(err)
	}
	dest, packed := filepath.Join(t.TempDir(), "dest"), 0
	ctx, cancel := context.WithCancel(t.Context())
	stopped := o
	stopped.Calibrated = func(int64, int64) {
		if packed++; packed == 5 {
			cancel()
		}
	}
	if _, err := Run(ctx, at(source), dest, stopped); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if !exists(dest + ".plain") {
		t.Error("the plain model is gone")
	}
	if _, err := Run(t.Context(), at(source), dest, o); err != nil {
		t.Fatal(err)
	}
	if exists(dest + ".plain") {
		t.Error("the plain model is left")
	}
	equalFiles(t, files(t, dest), files(t, whole))
}

// TestTarget: the result has at most the bits that were asked for, and most of them.
func TestTarget(t *testing.T) {
	source, text := runnable(t), digits(t, 1, 1100)
	for _, target := range []float64{3.2, 4.5, 8} {
		dest := filepath.Join(t.TempDir(), "dest")
		done, err := Run(t.Context(), at(source), dest, Options{Quantize: true, Calibrate: text,
			TargetBPW: target, Overrides: []string{"*.o_proj=5"}})
		if err != nil {
			t.Fatal(err)
		}
		if done.BitsPerWeight > target || done.BitsPerWeight < target-0.3 {
			t.Errorf("%.3f bits per weight, expected %g", done.BitsPerWeight, target)
		}
		textLoss(t, dest, text)
	}
}

// TestSpend chooses between matrices by hand.
func TestSpend(t *testing.T) {
	one := func(rows int, loss ...float64) *candidate {
		return &candidate{t: &tensor{rows: rows, cols: 64}, bits: 2, loss: loss}
	}
	all := func() []*candidate {
		return []*candidate{
			one(1, 100, 20, 5, 1, 0.5, 0),  // gains most at once
			one(1, 10, 2, 0.5, 0.1, 0, 0),  // less
			one(4, 100, 99, 10, 9, 8, 7.9), // in 3 bits nothing, but in 4, for a larger price
			one(1, 0, 0, 0, 0, 0, 0),       // never
		}
	}
	for budget, want := range map[int64][]int{
		0: {2, 2, 2, 2}, 8: {3, 2, 2, 2}, 7: {2, 2, 2, 2}, 16: {4, 2, 2, 2}, 24: {4, 3, 2, 2},
		80: {4, 2, 4, 2}, 1 << 20: {8, 6, 8, 2},
	} {
		c := all()
		spend(c, budget)
		var got []int
		for _, one := range c {
			got = append(got, one.bits)
		}
		if budget != 24 && budget != 80 && !slices.Equal(got, want) {
			t.Errorf("%d bytes: %v, expected %v", budget, got, want)
		}
		cost := int64(0)
		for _, one := range c {
			cost += int64(one.t.rows*one.t.cols*(one.bits-2)) / 8
		}
		if cost > budget {
			t.Errorf("%d bytes: %v cost %d", budget, got, cost)
		}
	}
}

// TestSampleText reads texts, or says why it does not.
func TestSampleText(t *testing.T) {
	source := runnable(t)
	long := strings.Repeat("1234567890", 150)
	for text, want := range map[string]string{
		long:                       "",
		`{"text": "` + long + `"}`: "",
		"{\"text\": \"1\"}\n\n{\"text\": \"" + long + "\"}\n": "",
		"":                    "0 tokens, and at least 1024",
		"12345":               "5 tokens, and at least 1024",
		`{"text": 5}`:         "line 1 is no JSON object",
		"{\"text\": \"\"}\n[": "line 2 is no JSON object",
		`{"other": 1}`:        "line 1 has neither text nor messages",
		`{"messages": [{"role": "user", "content": "1"}]}`: "no chat template",
	} {
		path := filepath.Join(t.TempDir(), "text")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := readSample(t.Context(), path, at(source), defaultSample)
		switch {
		case want == "" && (err != nil || s.tokens < 1500):
			t.Errorf("%.30q: %v", text, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want) ||
			problem.From(err).Code != problem.BadRequest):
			t.Errorf("%.30q: %v, expected %s", text, err, want)
		}
	}
}

// TestSampleTake takes sequences from all parts of a text.
func TestSampleTake(t *testing.T) {
	var all [][]int32
	for i := range 100 {
		all = append(all, make([]int32, 100))
		all[i][0] = int32(i)
	}
	var s sampleText
	s.take(all, 10000, 1000)
	if s.tokens != 1000 || len(s.sequences) != 10 || s.sequences[9][0] < 80 || !s.left {
		t.Errorf("%d tokens in %d sequences", s.tokens, len(s.sequences))
	}
	s = sampleText{}
	s.take(all[:7], 700, 1000)
	if s.tokens != 700 || len(s.sequences) != 7 || s.left {
		t.Errorf("%d tokens in %d sequences", s.tokens, len(s.sequences))
	}
}

// TestCalibrateRefusals has options that do not go together, and text that the model cannot read.
func TestCalibrateRefusals(t *testing.T) {
	source, text := runnable(t), digits(t, 1, 1100)
	words := filepath.Join(t.TempDir(), "words")
	if err := os.WriteFile(words, []byte(strings.Repeat("the model ", 2000)), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, o := range map[string]Options{
		"needs a calibration text":        {Quantize: true, TargetBPW: 4},
		"is not to be quantized":          {Calibrate: text},
		"only affine is calibrated":       {Quantize: true, Mode: "mxfp4", Calibrate: text},
		"chooses the bits itself":         {Quantize: true, Bits: 4, TargetBPW: 4, Calibrate: text},
		"expected 2.25 to 8.5":            {Quantize: true, TargetBPW: 1, Calibrate: text},
		"the least is":                    {Quantize: true, TargetBPW: 2.3, Calibrate: text},
		"calibration text cannot be read": {Quantize: true, Calibrate: text + "x"},
		"and the model has 96":            {Quantize: true, Calibrate: words},
	} {
		dest := filepath.Join(t.TempDir(), "dest")
		_, err := Run(t.Context(), at(source), dest, o)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, expected %s", err, want)
		}
		if exists(dest, "config.json") {
			t.Errorf("%s: a model was written", want)
		}
	}
}
