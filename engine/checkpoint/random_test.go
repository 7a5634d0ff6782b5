package checkpoint

import (
	"math"
	"testing"

	"headroom/kernels"
)

// TestRandomWeights checks that in every mode, the elements have a mean of 0 and a standard
// deviation of about 1/sqrt(K), so that products have about size 1.
func TestRandomWeights(t *testing.T) {
	const n, k = 64, 1024
	for _, c := range []struct{ entry, format string }{
		{`"bits": 4, "group_size": 64`, "4-bit g64"},
		{`"bits": 3, "group_size": 32`, "3-bit g32"},
		{`"mode": "mxfp4"`, "mxfp4"},
		{`"mode": "mxfp8"`, "mxfp8"},
		{`"mode": "mxfp4", "a": {"bits": 8, "group_size": 64}`, "8-bit g64"},
		{`"mode": "mxfp4", "a": false`, "mxfp4"}, // random models have no plain matrices
	} {
		src := Random([]byte(`{"model_type": "m", "quantization": {` + c.entry + `}}`))
		config, err := src.Config()
		if err != nil {
			t.Fatal(err)
		}
		d := kernels.NewReference()
		w, err := Open(src, config, d)
		if err != nil {
			t.Fatal(err)
		}
		a := w.At("").Linear("a", n, k)
		if err := a.Check(); err != nil || a.Format() != c.format ||
			w.SizeBytes() != int64(a.Bytes()) || w.Parameters() != n*k {
			t.Fatalf("%s: wrong weight: got %s of %d parameters in %d bytes, %v",
				c.entry, a.Format(), w.Parameters(), w.SizeBytes(), err)
		}
		row, sum, squares := make([]float32, k), 0.0, 0.0
		for r := range n {
			a.DequantizeRow(row, r)
			for _, v := range row {
				sum, squares = sum+float64(v), squares+float64(v)*float64(v)
			}
		}
		deviation := math.Sqrt(squares/(n*k)) * math.Sqrt(k)
		if mean := sum / (n * k) * math.Sqrt(k); math.Abs(mean) > 0.05 || deviation < 0.5 ||
			deviation > 1.5 {
			t.Errorf("%s: mean %g and deviation %g in units of 1/sqrt(K), expected 0 and about 1",
				c.entry, mean, deviation)
		}
		d.Close()
	}
}

// TestRandomPrefix checks that the modules that config.json names decide between the prefixes of
// Hugging Face and MLX, so that a random model has the packing of each.
func TestRandomPrefix(t *testing.T) {
	for module, prefix := range map[string]string{
		"model.layers.0.a": "model.", "language_model.model.layers.0.a": "language_model.model.",
	} {
		src := Random([]byte(`{"model_type": "m", "quantization": {"bits": 4, "group_size": 64, "` +
			module + `": {"bits": 8, "group_size": 64}}}`))
		config, err := src.Config()
		if err != nil {
			t.Fatal(err)
		}
		d := kernels.NewReference()
		defer d.Close()
		w, err := Open(src, config, d)
		if err != nil {
			t.Fatal(err)
		}
		s := w.At("language_model.model.", "model.")
		for i, format := range []string{"8-bit g64", "4-bit g64"} {
			if a := s.Sub("layers.%d", i).Linear("a", 1, 64); s.path != prefix ||
				a.Format() != format {
				t.Errorf("%s: layer %d at %q is %s, expected %q and %s", module, i, s.path,
					a.Format(), prefix, format)
			}
		}
	}
}
