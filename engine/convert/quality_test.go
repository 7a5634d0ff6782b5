package convert

// What calibration is worth: the loss on text that it has not seen, by the size. It needs models
// that have learned something, and originals of them.

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headroom/app/demo"
	"headroom/app/demo/demotest"
	"headroom/engine/checkpoint"
	"headroom/engine/safetensors"
	"headroom/kernels"
	"headroom/kernels/quantize"
)

// textLoss returns the mean loss of a model over the sequences of a text, in nats per token.
func textLoss(t *testing.T, folder, text string) float64 {
	t.Helper()
	loss, _ := measure(t, folder, text, nil)
	return loss
}

// measure returns the mean loss of a model over a text, and, if original is not nil, the mean
// divergence of its probabilities from those. Both are in nats per token.
func measure(t *testing.T, folder, text string, original []probabilities) (loss,
	divergence float64) {
	t.Helper()
	o := openForText(t, folder, text)
	defer o.close()
	tokens, spans := o.spans()
	last := map[int]bool{}
	for _, span := range spans {
		last[span.Row+span.Rows-1] = true
	}
	count := 0
	if err := o.scores(func(i int, logits []float32) {
		if !last[i] {
			loss += logSum(logits) - float64(logits[tokens[i+1]])
			count++
		}
		if original != nil {
			divergence += original[i].divergence(logits) / float64(len(original))
		}
	}); err != nil {
		t.Fatal(err)
	}
	return loss / float64(count), divergence
}

// openForText opens a model to run over a text.
func openForText(t *testing.T, folder, text string) *observed {
	t.Helper()
	s, err := readSample(t.Context(), text, at(folder), defaultSample)
	if err != nil {
		t.Fatal(err)
	}
	config, err := at(folder).Config()
	if err != nil {
		t.Fatal(err)
	}
	o, err := openObserved(&conversion{source: at(folder), config: config}, s, nil)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// unroundedDemo writes a model that could be the demo model's original, and returns its folder. The
// true one is not kept. Each weight is drawn evenly from the values that round to its code, so what
// packing it loses does not depend on how the demo model was packed.
func unroundedDemo(t *testing.T) string {
	t.Helper()
	packed := t.TempDir()
	tree, err := fs.Sub(demo.Files, "model")
	if err == nil {
		err = os.CopyFS(packed, tree)
	}
	if err != nil {
		t.Fatal(err)
	}
	config, err := at(packed).Config()
	if err != nil {
		t.Fatal(err)
	}
	w, err := checkpoint.Open(at(packed), config, kernels.NewReference())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	values, err := w.Values()
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(5, 6))
	drop := map[string]any{"quantization": nil, "quantization_config": nil}
	dir := edited(t, packed, drop, func([]safetensors.Tensor) (all []safetensors.Tensor) {
		for i := range values {
			if v := &values[i]; v.Packing == "" {
				all = append(all, v.Tensor)
			} else {
				all = append(all, unrounded(t, w, v, r))
			}
		}
		return all
	})
	for _, name := range []string{"tokenizer.json", "tokenizer_config.json"} {
		if err := os.WriteFile(filepath.Join(dir, name), read(t, packed, name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// unrounded returns a tensor without its packing.
func unrounded(t *testing.T, w *checkpoint.Weights, v *checkpoint.Values,
	r *rand.Rand) safetensors.Tensor {
	packed, err := w.Unpack(v)
	if err != nil {
		t.Fatal(err)
	}
	rows := packed.Experts * packed.N
	data, row := make([]byte, 2*rows*packed.K), make([]float32, packed.K)
	scales := make([]float32, packed.K/packed.Group)
	for i := range rows {
		packed.DequantizeRow(row, i)
		packed.Scales.DecodeRow(scales, i)
		for j, x := range row {
			x += scales[j/packed.Group] * (r.Float32() - 0.5)
			quantize.PutFloat(data, i*packed.K+j, x, kernels.BF16)
		}
	}
	return safetensors.Tensor{Name: v.Name, DType: safetensors.BF16, Shape: v.Shape, Data: data}
}

// demoTexts writes two halves of the demo model's unseen conversations, and returns their paths.
func demoTexts(t *testing.T) (calibration, text string) {
	t.Helper()
	var all []struct {
		IDs []int32 `json:"ids"`
	}
	if err := json.Unmarshal(read(t, "../models/testdata/demo/demo_nll.json"), &all); err != nil {
		t.Fatal(err)
	}
	tokens, _ := demotest.Texts()
	var halves [2][]byte
	for i, one := range all {
		line, err := json.Marshal(map[string]string{"text": tokens.Decode(one.IDs, false)})
		if err != nil {
			t.Fatal(err)
		}
		halves[i%2] = append(append(halves[i%2], line...), '\n')
	}
	dir := t.TempDir()
	for i, name := range []string{"calibration.jsonl", "text.jsonl"} {
		if err := os.WriteFile(filepath.Join(dir, name), halves[i], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "calibration.jsonl"), filepath.Join(dir, "text.jsonl")
}

// TestQuality prints a table of losses. HEADROOM_QUALITY is "demo", or names an original, a
// calibration text and a text that is measured, and then results that are measured, too, separated
// by colons.
func TestQuality(t *testing.T) {
	var model, calibration, text string
	var results []string
	switch parts := strings.Split(os.Getenv("HEADROOM_QUALITY"), ":"); {
	case parts[0] == "demo":
		model = unroundedDemo(t)
		calibration, text = demoTexts(t)
	case len(parts) >= 3:
		model, calibration, text, results = parts[0], parts[1], parts[2], parts[3:]
	default:
		t.Skip("HEADROOM_QUALITY is neither demo nor MODEL:CALIBRATION:TEXT")
	}
	base := textLoss(t, model, text)
	o := openForText(t, model, text)
	original, err := o.probabilities(nil)
	if o.close(); err != nil {
		t.Fatal(err)
	}
	fmt.Printf("original: loss %.4f of %d tokens\n", base, len(original))
	for _, folder := range results {
		loss, divergence := measure(t, folder, text, original)
		fmt.Printf("| %s | | %.4f | %.4f | %.4f | |\n", filepath.Base(folder), loss, loss-base,
			divergence)
	}
	for name, o := range map[string]Options{
		"3": {Bits: 3}, "3-calibrated": {Bits: 3, Calibrate: calibration},
		"4": {Bits: 4}, "4-calibrated": {Bits: 4, Calibrate: calibration},
		"mixed_2_6": {Recipe: "mixed_2_6"}, "mixed_3_4": {Recipe: "mixed_3_4"},
		"mixed_3_6": {Recipe: "mixed_3_6"}, "mixed_4_6": {Recipe: "mixed_4_6"},
		"target-3.5": {TargetBPW: 3.5, Calibrate: calibration},
		"target-4.5": {TargetBPW: 4.5, Calibrate: calibration},
	} {
		t.Run(name, func(t *testing.T) {
			o.Quantize = true
			dest := filepath.Join(t.TempDir(), "dest")
			done, err := Run(t.Context(), at(model), dest, o)
			if err != nil {
				t.Fatal(err)
			}
			loss, divergence := measure(t, dest, text, original)
			fmt.Printf("| %s | %.2f | %.4f | %.4f | %.4f | %.0f s |\n", name, done.BitsPerWeight,
				loss, loss-base, divergence, done.Seconds)
		})
	}
}
