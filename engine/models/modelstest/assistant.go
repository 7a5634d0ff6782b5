package modelstest

import (
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
)

// SharedTarget are the keys of text_config of an Assistant for the tiny model gemma4_text, whose
// last layers have no keys and values of their own.
var SharedTarget = map[string]any{"attention_k_eq_v": false, "sliding_window": 16}

// Assistant is the random assistant of the tiny model gemma4_text_affine. The zero value is as it
// is in testdata/assistant.
type Assistant struct {
	Clusters bool           // it has the head with clusters, not the one for all tokens
	Keys     map[string]any // replace those of config.json
	Text     map[string]any // replace those of text_config
}

// Write writes the assistant's files to the folder dir. tree is testdata/assistant.
func (a Assistant) Write(tree fs.FS, dir string) error {
	parts := []string{"plain"} // whose tensors both have
	if a.Clusters {
		parts = append(parts, "clusters")
	}
	for i, part := range parts {
		file := "model-" + part + ".safetensors"
		data, err := fs.ReadFile(tree, path.Join(part, file))
		if i == 0 {
			file = "model.safetensors"
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, file), data, 0o600)
		}
		if err != nil {
			return err
		}
	}
	data, err := fs.ReadFile(tree, path.Join(parts[len(parts)-1], "config.json"))
	if err != nil {
		return err
	}
	var config map[string]any
	if err := json.Unmarshal(data, &config); err != nil {
		return err
	}
	maps.Copy(config, a.Keys)
	maps.Copy(config["text_config"].(map[string]any), a.Text)
	if data, err = json.Marshal(config); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "config.json"), data, 0o600)
}
