package engine

// What benchmarks need beyond requests: models made up on the fly, and how much memory a token moves on this machine.

import (
	"time"

	"headroom/engine/checkpoint"
	"headroom/kernels"
	"headroom/kernels/bandwidth"
	"headroom/kernels/cpu"
)

// Random is a model of random weights in the shapes and packing that a config.json asks for, made in memory.
func Random(config []byte) Source { return checkpoint.Random(config) }

// DecodeTrafficBytes is what decoding one token after so many must move to and from memory at least: weights, keys and values, and
// recurrent state.
func (e *Engine) DecodeTrafficBytes(contextTokens int) int64 {
	return e.runner.DecodeTrafficBytes(contextTokens)
}

// MeasureReadBandwidth is the bytes per second that this machine's threads (0: all cores) read from memory: the best of several
// passes over far more than any cache holds.
func MeasureReadBandwidth(threads int) float64 {
	const rows, cols, passes = 4096, 64 << 10, 5 // 1 GiB in rows of 256 KiB
	d := kernels.NewCPU(cpu.Options{Threads: threads})
	defer d.Close()
	op := &bandwidth.Read{X: kernels.NewTensor(d, kernels.F32, rows, cols), Sums: kernels.NewTensor(d, kernels.F32, rows, 1)}
	values := op.X.Float32s()
	for i := 0; i < len(values); i += 1024 { // touch every page: untouched ones all read the same zeros
		values[i] = 1
	}
	best := time.Duration(1 << 62)
	for range passes {
		start := time.Now()
		d.Run(op)
		best = min(best, time.Since(start))
	}
	return float64(op.TrafficBytes()) / best.Seconds()
}
