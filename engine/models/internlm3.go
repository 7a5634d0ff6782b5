package models

// InternLM3 has the layers of Llama. One key stands for the biases of queries, keys and values, and
// another for all other biases.
//
// Sources: Hugging Face, internlm/internlm3-8b-instruct; mlx-lm, models/internlm3.py, which gives
// o_proj the bias of the former. Checkpoints: InternLM3 8B, MLX conversions included, which has no
// biases.

import "headroom/engine/checkpoint"

type internLM3Config struct {
	decoderConfig
	QKVBias bool `json:"qkv_bias"`
	Bias    bool `json:"bias"`
}

func loadInternLM3(w *checkpoint.Weights) (Model, error) {
	c := internLM3Config{decoderConfig: newDecoderConfig()}
	c.MaxPositionEmbeddings = 32768
	if err := w.Config.Decode(&c); err != nil {
		return nil, err
	}
	c.LayerTypes, c.MLPBias = nil, c.Bias
	if err := c.check(w); err != nil {
		return nil, err
	}
	return c.similar(w, llamaRopeTheta, attentionOptions{qkvBias: c.QKVBias, outputBias: c.Bias})
}
