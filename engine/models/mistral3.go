package models

// Mistral 3 is a multimodal model. Its language model is a Mistral or a Ministral 3, as model_type
// in text_config says. The vision tower is not read.
//
// Sources: Hugging Face transformers, models/mistral3; mlx-lm, models/mistral3.py. Checkpoints:
// Mistral Small 3.1 and 3.2, Magistral Small, Ministral 3 and Devstral Small 2, MLX conversions
// included.

import "headroom/engine/checkpoint"

func loadMistral3(w *checkpoint.Weights) (Model, error) {
	var text struct {
		ModelType string `json:"model_type"` // Config merges text_config over the outer keys
	}
	if err := w.Config.Decode(&text); err != nil {
		return nil, err
	}
	switch text.ModelType {
	case "mistral", w.Config.ModelType: // the outer one if text_config has none
		return loadMistral(w)
	case "ministral3":
		return loadMinistral3(w)
	}
	return nil, unsupported(w, "model_type in text_config is %q, expected mistral or ministral3",
		text.ModelType)
}
