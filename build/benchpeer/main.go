// Benchpeer compares the speed of Headroom with that of a llama.cpp build: the same model shape and
// bits per weight, the same threads, alternating runs, medians and ratios. Each row runs llama.cpp
// with and without flash attention, and uses the better result.
//
//	make bench-peer PEER=~/llama.cpp/build/bin/llama-bench MODEL=~/models/Qwen3-0.6B-Q4_0.gguf
//
// The model must be a 4-bit GGUF of the shape that Headroom generates (-shape). The output shows
// the size of llama.cpp's model for comparison. Build llama.cpp for this processor (cmake
// -DGGML_NATIVE=ON -DCMAKE_BUILD_TYPE=Release).
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
)

func main() {
	var c comparison
	flag.StringVar(&c.headroom, "headroom", "bin/headroom", "path of the headroom program")
	flag.StringVar(&c.peer, "peer", "", "path of llama.cpp's llama-bench")
	flag.StringVar(&c.model, "model", "", "path of a 4-bit GGUF of the shape")
	flag.StringVar(&c.shape, "shape", "qwen3-0.6b", "model shape that Headroom generates")
	flag.IntVar(&c.threads, "threads", runtime.NumCPU(), "threads of both programs")
	flag.IntVar(&c.rounds, "rounds", 5, "measured runs of each side; one more warms up")
	flag.IntVar(&c.depth, "depth", 4096,
		"context in tokens for the second decode row; 0 leaves the row out")
	flag.StringVar(&c.peerKV, "peer-kv", "f16",
		"llama.cpp's KV cache: f16, q8_0 or q4_0; Headroom uses its default of 8 and 4 bits")
	flag.Parse()
	if flag.NArg() > 0 || c.peer == "" || c.model == "" || c.rounds < 1 || c.depth < 0 {
		fmt.Fprintln(os.Stderr,
			"benchpeer: -peer (llama-bench) and -model (a GGUF file) are required; see -h")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := c.run(ctx, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "benchpeer:", err)
		os.Exit(1)
	}
}
