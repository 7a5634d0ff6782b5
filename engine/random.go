package engine

import (
	"headroom/engine/checkpoint"
	"headroom/engine/models"
)

// Random returns a model with random weights, in the shapes and quantization of a config.json. It
// exists in memory only and serves benchmarks and tests.
func Random(config []byte) Source { return checkpoint.Random(config) }

// WriteRandom writes the model of Random into a folder, in MLX's format.
func WriteRandom(dir string, config []byte) error {
	return checkpoint.WriteRandom(dir, config, func(w *checkpoint.Weights) error {
		_, err := models.Load(w)
		return err
	})
}
