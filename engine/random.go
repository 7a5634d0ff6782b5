package engine

import (
	"headroom/engine/checkpoint"
	"headroom/engine/models"
)

// Random returns a model with random weights, in the shapes and quantization of a config.json. The
// model exists in memory only. It is for benchmarks and tests.
func Random(config []byte) Source { return checkpoint.Random(config) }

// WriteRandom writes the model that Random(config) returns into a folder, in MLX's format.
func WriteRandom(dir string, config []byte) error {
	return checkpoint.WriteRandom(dir, config, func(w *checkpoint.Weights) error {
		_, err := models.LoadDrafter(w)
		return err
	})
}
