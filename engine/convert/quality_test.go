package convert

// What calibration is worth: the loss on text that it has not seen, by the size. It needs models
// that have learned something, and originals of them.

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headroom/engine/checkpoint"
)

// textLoss returns the mean loss of a model over the sequences of a text, in nats per token.
func textLoss(t *testing.T, folder, text string, most int) float64 {
	t.Helper()
	source := at(folder)
	s, err := readSample(t.Context(), text, source, most)
	if err != nil {
		t.Fatal(err)
	}
	return sampleLoss(t, source, s)
}

func sampleLoss(t *testing.T, source checkpoint.Source, s *sampleText) float64 {
	t.Helper()
	config, err := source.Config()
	if err != nil {
		t.Fatal(err)
	}
	c := &conversion{source: source, config: config}
	o, err := openObserved(c, s, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer o.close()
	tokens, spans := o.spans()
	last := map[int]bool{}
	for _, span := range spans {
		last[span.Row+span.Rows-1] = true
	}
	sum, count := 0.0, 0
	if err := o.scores(func(i int, logits []float32) {
		if !last[i] {
			sum += logSum(logits) - float64(logits[tokens[i+1]])
			count++
		}
	}); err != nil {
		t.Fatal(err)
	}
	return sum / float64(count)
}

// TestQuality prints a table of losses. HEADROOM_QUALITY names an original, a calibration text and a
// text that is measured, separated by colons.
func TestQuality(t *testing.T) {
	parts := strings.Split(os.Getenv("HEADROOM_QUALITY"), ":")
	if len(parts) != 3 {
		t.Skip("HEADROOM_QUALITY is not set to MODEL:CALIBRATION:TEXT")
	}
	model, calibration, text := parts[0], parts[1], parts[2]
	const tokens = 16384
	base := textLoss(t, model, text, tokens)
	fmt.Printf("original: loss %.4f\n", base)
	for _, o := range []Options{
		{Bits: 3}, {Bits: 3, Calibrate: calibration},
		{Bits: 4}, {Bits: 4, Calibrate: calibration},
		{Recipe: "mixed_2_6"}, {Recipe: "mixed_3_4"}, {Recipe: "mixed_3_6"}, {Recipe: "mixed_4_6"},
		{TargetBPW: 3.5, Calibrate: calibration}, {TargetBPW: 4.5, Calibrate: calibration},
	} {
		o.Quantize = true
		dest := filepath.Join(t.TempDir(), "dest")
		done, err := Run(t.Context(), at(model), dest, o)
		if err != nil {
			t.Fatal(err)
		}
		loss := textLoss(t, dest, text, tokens)
		fmt.Printf("bits %d recipe %q target %.2f calibrated %v: %.3f bits per weight, %.1f s, "+
			"loss %.4f, increase %.4f\n", o.Bits, o.Recipe, o.TargetBPW, o.Calibrate != "",
			done.BitsPerWeight, done.Seconds, loss, loss-base)
	}
}
