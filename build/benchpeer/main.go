// Benchpeer compares the speed of Headroom with that of a llama.cpp build: the same model shape and
// bits per weight, the same threads, alternating runs, medians and ratios. Each row runs llama.cpp
// with and without flash attention, and uses the better result.
//
//	make bench-peer SHAPE=llama-3.2-3b
//
// builds llama.cpp for this processor, and writes a GGUF file of random weights in the shape. With
// PEER and MODEL it takes another llama-bench, or a GGUF file that you have:
//
//	make bench-peer PEER=~/llama.cpp/build/bin/llama-bench MODEL=~/models/Qwen3-0.6B-Q4_0.gguf
//
// The output shows the sizes of both models, which must be about the same.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

func main() {
	var c comparison
	var shape, models string
	var layers int
	flag.StringVar(&c.headroom, "headroom", "bin/headroom", "path of the headroom program")
	flag.StringVar(&c.peer, "peer", "", "path of llama.cpp's llama-bench")
	flag.StringVar(&c.model, "model", "", "path of a GGUF of the shape; without it, a file of "+
		"random weights is written to the folder -models")
	flag.StringVar(&shape, "shape", "qwen3-0.6b",
		"shape of the model: a name that `headroom bench speed --help` lists, or a config.json")
	flag.IntVar(&layers, "layers", 0, "take only this many layers of the shape; 0: all")
	flag.StringVar(&models, "models", "bin/bench-peer/models", "folder of the written GGUF files")
	flag.IntVar(&c.threads, "threads", runtime.NumCPU(), "threads of both programs")
	flag.IntVar(&c.rounds, "rounds", 5, "measured runs of each side; one more warms up")
	flag.IntVar(&c.depth, "depth", 4096,
		"context in tokens for the second decode row; 0 leaves the row out")
	flag.Func("prompts", "lengths of the prompts in tokens (default 128,512,2048)", c.setPrompts)
	flag.StringVar(&c.peerKV, "peer-kv", "f16",
		"llama.cpp's KV cache: f16, q8_0 or q4_0; Headroom uses its default of 8 and 4 bits")
	flag.Parse()
	if flag.NArg() > 0 || c.peer == "" || c.rounds < 1 || c.depth < 0 {
		fmt.Fprintln(os.Stderr, "benchpeer: -peer (llama-bench) is required; see -h")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := c.prepare(shape, layers, models)
	if err == nil {
		err = c.run(ctx, os.Stdout, os.Stderr)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "benchpeer:", err)
		os.Exit(1)
	}
}

func (c *comparison) setPrompts(list string) error {
	c.prompts = nil
	for word := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 {
			return errors.New("expected positive numbers separated by commas")
		}
		c.prompts = append(c.prompts, n)
	}
	return nil
}

// prepare reads the shape and writes the models that do not exist yet: a config.json for Headroom,
// and a GGUF file unless c.model is given.
func (c *comparison) prepare(shape string, layers int, models string) error {
	label, text, err := readShape(shape, layers)
	if err != nil {
		return err
	}
	config, err := parseConfig(text)
	if err != nil {
		return err
	}
	d, err := describe(text)
	if err != nil {
		return err
	}
	c.weights, c.shape, c.config = d.SizeBytes, label,
		filepath.Join(models, label+".json")
	if err := os.MkdirAll(models, 0o755); err != nil {
		return err
	}
	written, _ := os.ReadFile(c.config)
	if err := os.WriteFile(c.config, text, 0o644); err != nil {
		return err
	}
	if c.model != "" {
		return nil
	}
	c.model = filepath.Join(models, label+".gguf")
	if _, err := os.Stat(c.model); err == nil && string(written) == string(text) {
		return nil // it is of this config
	}
	fmt.Fprintln(os.Stderr, "writing", c.model)
	return config.write(c.model)
}

// write writes a GGUF file of the shape.
func (c *config) write(name string) error {
	metadata, tensors, err := c.gguf()
	if err != nil {
		return err
	}
	part := name + ".part" // so that an interrupted run leaves no incomplete model
	f, err := os.Create(part)
	if err != nil {
		return err
	}
	if err := errors.Join(writeGGUF(f, metadata, tensors), f.Close()); err != nil {
		return errors.Join(err, os.Remove(part))
	}
	return os.Rename(part, name)
}
