// Package demo embeds the model that Headroom ships: a first run answers without a download.
//
// It is a Qwen3.5-MoE text model of 19.7 million parameters in MLX 4-bit format (11.4 MB), trained
// for this project on sentences from its own grammars; model/README.md says what it can do.
package demo

import "embed"

// ID is the name under which the server offers the model.
const ID = "headroom-demo"

// Files holds the checkpoint folder under "model/": config.json, model.safetensors, tokenizer.json
// and the rest, byte for byte as a checkpoint on disk would be.
//
//go:embed model/*
var Files embed.FS
