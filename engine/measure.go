package engine

// What benchmarks need beyond requests: models made up on the fly, what a token costs at least, how
// fast this machine could be at that, and where the time goes.

import (
	"math"
	"slices"
	"time"

	"headroom/engine/checkpoint"
	"headroom/engine/models"
	"headroom/kernels"
	"headroom/kernels/arithmetic"
	"headroom/kernels/bandwidth"
	"headroom/kernels/cpu"
)

// Random is a model of random weights in the shapes and packing that a config.json asks for, made
// in memory.
func Random(config []byte) Source { return checkpoint.Random(config) }

// WriteRandom writes such a model into a folder, in MLX's format.
func WriteRandom(dir string, config []byte) error {
	return checkpoint.WriteRandom(dir, config, func(w *checkpoint.Weights) error {
		_, err := models.Load(w)
		return err
	})
}

// Cost is what something moves to and from memory, and computes, at least. A multiply-add is two
// operations.
type Cost struct {
	Bytes int64 // weights, keys and values, recurrent states
	// with packed weights and quantized keys and values, unless activations stay float32
	Int8Ops    int64
	Float32Ops int64 // other products
}

// DecodeCost is that of decoding a token in each of so many sequences together, after so many
// tokens in each.
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
	ReadBytes float64
	// multiply-adds of 8-bit integers, two operations each, by the instructions that the kernels
	// use
	Int8Ops    float64
	Float32Ops float64 // fused multiply-adds
}

// Time is the least that c takes: bound by memory or by arithmetic, whichever is longer. What is
// unknown takes no time.
func (m Ceilings) Time(c Cost) (least time.Duration, byMemory bool) {
	over := func(n int64, rate float64) float64 {
		if rate <= 0 {
			return 0
		}
		return float64(n) / rate
	}
	memory, arithmetic := over(c.Bytes, m.ReadBytes),
		over(c.Int8Ops, m.Int8Ops)+over(c.Float32Ops, m.Float32Ops)
	return time.Duration(math.Round(1e9 * max(memory, arithmetic))), memory >= arithmetic
}

// Yardstick measures again and again what a device could do: memory's speed changes from minute to
// minute where other machines share it, so a figure is worth comparing only with a ceiling from
// right before and after it.
type Yardstick struct {
	device kernels.Device
	read   *bandwidth.Read
	cpu    *cpu.Context // nil: not a CPU, whose arithmetic is unknown
}

// yardstickBytes are far more than any cache holds.
const yardstickBytes = 512 << 20

// NewYardstick takes half a GiB of memory, but for the simulated GPU, of which nothing is measured.
// On a CPU it takes a second to find the way in which memory is read fastest, and stays with it.
// Errors are Problems.
func NewYardstick(o Options) (*Yardstick, error) {
	d, err := openDevice(&o)
	if err != nil {
		return nil, err
	}
	y := &Yardstick{device: d}
	if o.Device == DeviceSim {
		return y, nil
	}
	const cols = 64 << 10 // in rows of 256 KiB
	y.read = &bandwidth.Read{X: kernels.NewTensor(d, kernels.F32, yardstickBytes/4/cols, cols),
		Sums: kernels.NewTensor(d, kernels.F32, yardstickBytes/4/cols, 1)}
	values := y.read.X.Float32s()
	for i := 0; i < len(values); i += 1024 {
		// touch every page: untouched ones all read the same zeros
		values[i] = 1
	}
	if o.Device == DeviceCPU {
		y.cpu = cpu.NewContext(cpu.Options{Threads: o.Threads})
		rates, err := y.read.Rates(d, time.Second)
		if err != nil {
			y.Close()
			return nil, err
		}
		y.read.Way = slices.Index(rates, slices.Max(rates))
	}
	return y, nil
}

// Bytes is the memory that it has.
func (y *Yardstick) Bytes() int64 {
	if y.read == nil {
		return 0
	}
	return y.read.TrafficBytes()
}

// Close gives the memory back.
func (y *Yardstick) Close() {
	if y.cpu != nil {
		y.cpu.Close()
	}
	y.device.Close()
}

// Measure takes about so long for memory, and as long for arithmetic. What it tells is the median
// of many passes, as a benchmark's figure is made of many tokens: the best pass would promise what
// memory does not keep.
func (y *Yardstick) Measure(during time.Duration) (m Ceilings, err error) {
	if y.read == nil {
		return m, nil
	}
	var passes []float64
	for end := time.Now().Add(during); len(passes) < 3 || time.Now().Before(end); {
		start := time.Now()
		y.device.Run(y.read)
		if err := y.device.Sync(); err != nil {
			return m, err
		}
		passes = append(passes, float64(y.read.TrafficBytes())/time.Since(start).Seconds())
	}
	slices.Sort(passes)
	m.ReadBytes = passes[len(passes)/2]
	if y.cpu != nil {
		m.Int8Ops, m.Float32Ops = arithmetic.Int8(y.cpu, during/2),
			arithmetic.Float32(y.cpu, during/2)
	}
	return m, nil
}

// OperatorTimes says where an engine's time on the CPU goes, by operator; give it as Options.Times.
// Start and Stop it while no request runs.
type OperatorTimes = kernels.Times

// OperatorTime is what the runs of one kind of operator took.
type OperatorTime = kernels.OperatorTime
