// Package demo embeds the model that comes with Headroom, so that the first run needs no download.
//
// It is a Qwen3.5-MoE text model of 19.7 million parameters in MLX 4-bit format (11.4 MB). It was
// trained for this project on generated sentences; model/README.md says what it can do.
package demo

import "embed"

// ID is the name under which the server offers the model.
const ID = "headroom-demo"

// Files has the checkpoint in the folder "model": config.json, model.safetensors, tokenizer.json
// and its other files.
//
//go:embed model/*
var Files embed.FS
