// Command benchpeer compares Headroom with a llama.cpp build that the reader brings: the same shape
// in the same number of bits, the same threads, alternating runs, medians and ratios. In each row
// llama.cpp runs with flash attention and without, and the better one counts.
//
//	make bench-peer PEER=~/llama.cpp/build/bin/llama-bench MODEL=~/models/Qwen3-0.6B-Q4_0.gguf
//
// The model must be a GGUF of the shape that Headroom makes up (-shape), in 4 bits; both programs'
// sizes are printed, so that a reader sees whether they are alike. Build llama.cpp for this
// processor (cmake -DGGML_NATIVE=ON -DCMAKE_BUILD_TYPE=Release).
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
	flag.StringVar(&c.headroom, "headroom", "bin/headroom", "the headroom program")
	flag.StringVar(&c.peer, "peer", "", "llama.cpp's llama-bench")
	flag.StringVar(&c.model, "model", "", "a GGUF file of the shape")
	flag.StringVar(&c.shape, "shape", "qwen3-0.6b", "the shape that Headroom makes up")
	flag.IntVar(&c.threads, "threads", runtime.NumCPU(), "threads of both")
	flag.IntVar(&c.rounds, "rounds", 5, "runs of each, besides one that warms up")
	flag.IntVar(&c.depth, "depth", 4096,
		"tokens before the answer that is decoded at depth; 0: none")
	flag.StringVar(&c.peerKV, "peer-kv", "f16",
		"llama.cpp's cache: f16, q8_0 or q4_0; Headroom's is the default of 8 and 4 bits")
	flag.Parse()
	if flag.NArg() > 0 || c.peer == "" || c.model == "" || c.rounds < 1 || c.depth < 0 {
		fmt.Fprintln(os.Stderr,
			"benchpeer: -peer and -model name llama-bench and a GGUF file; -h lists the flags")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := c.run(ctx, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "benchpeer:", err)
		os.Exit(1)
	}
}
