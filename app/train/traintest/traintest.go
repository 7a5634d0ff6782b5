// Package traintest makes what tests of trainings need: a small model that can be trained.
package traintest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"headroom/app/demo"
	"headroom/engine"
)

// WriteModel writes a random qwen3 with a hidden size of 64, packed in 4 bits, and the bundled
// model's tokenizer and chat template into a folder, which it makes.
func WriteModel(t testing.TB, dir string, layers int) {
	t.Helper()
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		err = engine.WriteRandom(dir, fmt.Appendf(nil, `{"model_type": "qwen3", "hidden_size": 64,
			"num_hidden_layers": %d, "intermediate_size": 64, "num_attention_heads": 2,
			"num_key_value_heads": 2, "head_dim": 32, "rms_norm_eps": 1e-6, "vocab_size": 2304,
			"max_position_embeddings": 512, "rope_theta": 10000.0, "tie_word_embeddings": true,
			"dtype": "bfloat16", "quantization": {"group_size": 64, "bits": 4}}`, layers))
	}
	for _, name := range []string{"tokenizer.json", "tokenizer_config.json",
		"chat_template.jinja"} {
		text, readErr := fs.ReadFile(demo.Files, "model/"+name)
		err = errors.Join(err, readErr, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
}
