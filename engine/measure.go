package engine

// What benchmarks need beyond requests: models made up on the fly, what a token costs at least, how fast this machine could be at that, and
// where the time goes.

import (
	"math"
	"time"

	"headroom/engine/checkpoint"
	"headroom/engine/models"
	"headroom/kernels"
	"headroom/kernels/arithmetic"
	"headroom/kernels/bandwidth"
	"headroom/kernels/cpu"
)

// Random is a model of random weights in the shapes and packing that a config.json asks for, made in memory.
func Random(config []byte) Source { return checkpoint.Random(config) }

// WriteRandom writes such a model into a folder, in MLX's format.
func WriteRandom(dir string, config []byte) error {
	return checkpoint.WriteRandom(dir, config, func(w *checkpoint.Weights) error {
		_, err := models.Load(w)
		return err
	})
}

// Cost is what something moves to and from memory, and computes, at least. A multiply-add is two operations.
type Cost struct {
	Bytes      int64 // weights, keys and values, recurrent states
	Int8Ops    int64 // with packed weights and quantized keys and values, unless activations stay float32
	Float32Ops int64 // other products
}

// DecodeCost is that of decoding a token in each of so many sequences together, after so many tokens in each.
func (e *Engine) DecodeCost(sequences, contextTokens int) Cost {
	return e.cost(sequences, 1, contextTokens, true)
}

// PromptCost is that of reading tokens [from, to) of a prompt, in passes of the engine's length.
func (e *Engine) PromptCost(from, to int) (sum Cost) {
	for from < to {
		rows := min(e.options.ChunkTokens, to-from)
		c := e.cost(1, rows, from, from+rows == to)
		sum.Bytes += c.Bytes
		sum.Int8Ops += c.Int8Ops
		sum.Float32Ops += c.Float32Ops
		from += rows
	}
	return sum
}

func (e *Engine) cost(sequences, rows, contextTokens int, logits bool) Cost {
	c := e.runner.Cost(sequences, rows, contextTokens, logits)
	if e.options.Float32Activations {
		return Cost{Bytes: c.Bytes, Float32Ops: c.Int8 + c.Float32}
	}
	return Cost{Bytes: c.Bytes, Int8Ops: c.Int8, Float32Ops: c.Float32}
}

// Ceilings is what this machine does at best, per second, as measured; 0 is unknown.
type Ceilings struct {
	ReadBytes  float64
	Int8Ops    float64 // multiply-adds of 8-bit integers, two operations each, by the instructions that the kernels use
	Float32Ops float64 // fused multiply-adds
}

// Time is the least that c takes: bound by memory or by arithmetic, whichever is longer. What is unknown takes no time.
func (m Ceilings) Time(c Cost) (least time.Duration, byMemory bool) {
	over := func(n int64, rate float64) float64 {
		if rate <= 0 {
			return 0
		}
		return float64(n) / rate
	}
	memory, arithmetic := over(c.Bytes, m.ReadBytes), over(c.Int8Ops, m.Int8Ops)+over(c.Float32Ops, m.Float32Ops)
	return time.Duration(math.Round(1e9 * max(memory, arithmetic))), memory >= arithmetic
}

// MeasureCeilings takes about two seconds and 1 GiB of memory. Of a GPU it measures how fast it reads, and of the simulated one nothing.
// Errors are Problems.
func MeasureCeilings(o Options) (m Ceilings, err error) {
	d, err := openDevice(&o)
	if err != nil || o.Device == DeviceSim {
		return m, err
	}
	m.ReadBytes, err = readBandwidth(d)
	d.Close()
	if o.Device == DeviceCPU {
		c := cpu.NewContext(cpu.Options{Threads: o.Threads})
		defer c.Close()
		m.Int8Ops, m.Float32Ops = arithmetic.Int8(c), arithmetic.Float32(c)
	}
	return m, err
}

// readBandwidth is the bytes per second that d reads from memory: the best of several passes over far more than any cache holds.
func readBandwidth(d kernels.Device) (bytesPerSecond float64, err error) {
	const rows, cols, passes = 4096, 64 << 10, 8 // 1 GiB in rows of 256 KiB
	op := &bandwidth.Read{X: kernels.NewTensor(d, kernels.F32, rows, cols), Sums: kernels.NewTensor(d, kernels.F32, rows, 1)}
	values := op.X.Float32s()
	for i := 0; i < len(values); i += 1024 { // touch every page: untouched ones all read the same zeros
		values[i] = 1
	}
	best := time.Duration(1 << 62)
	for range passes {
		start := time.Now()
		d.Run(op)
		if err := d.Sync(); err != nil {
			return 0, err
		}
		best = min(best, time.Since(start))
	}
	return float64(op.TrafficBytes()) / best.Seconds(), nil
}

// OperatorTimes says where an engine's time on the CPU goes, by operator; give it as Options.Times. Start and Stop it while no request runs.
type OperatorTimes = kernels.Times

// OperatorTime is what the runs of one kind of operator took.
type OperatorTime = kernels.OperatorTime
