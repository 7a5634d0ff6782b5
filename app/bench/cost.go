package bench

import (
	"math"
	"time"

	"headroom/engine"
)

// ChunkTokens is the number of prompt tokens per pass in benchmarks. Set it in engine.Options and
// pass it to PromptCost.
const ChunkTokens = 512

// Cost is the minimum memory traffic and arithmetic of some work. A multiply-add counts as two
// operations.
type Cost struct {
	Bytes int64 // weights, keys and values, recurrent states
	// Int8Ops are products with packed weights or quantized keys and values; 0 with float32
	// activations.
	Int8Ops    int64
	Float32Ops int64 // all other products
}

func passCost(e *engine.Engine, sequences, rows, contextTokens int, logits bool) Cost {
	c := e.PassCost(sequences, rows, contextTokens, logits)
	return Cost{Bytes: c.Bytes, Int8Ops: c.Int8, Float32Ops: c.Float32}
}

// DecodeCost returns the cost of a pass that decodes one token in each of the sequences, at context
// contextTokens.
func DecodeCost(e *engine.Engine, sequences, contextTokens int) Cost {
	return passCost(e, sequences, 1, contextTokens, true)
}

// PromptCost returns the cost of prefilling the tokens [from, to) of a prompt in passes of
// chunkTokens.
func PromptCost(e *engine.Engine, chunkTokens, from, to int) (sum Cost) {
	for from < to {
		rows := min(chunkTokens, to-from)
		c := passCost(e, 1, rows, from, from+rows == to)
		sum.Bytes += c.Bytes
		sum.Int8Ops += c.Int8Ops
		sum.Float32Ops += c.Float32Ops
		from += rows
	}
	return sum
}

// Ceilings holds the measured maximum rates of a machine, per second. Zero means unknown.
type Ceilings struct {
	ReadBytes  float64 `json:"readBytesPerSecond,omitempty"`
	Int8Ops    float64 `json:"int8OperationsPerSecond,omitempty"` // 8-bit multiply-adds, two each
	Float32Ops float64 `json:"float32OperationsPerSecond,omitempty"`
}

// Time returns the minimum time for c: the time of its memory traffic or of its arithmetic,
// whichever is longer. Work with an unknown ceiling counts as no time.
func (m Ceilings) Time(c Cost) (least time.Duration, memoryBound bool) {
	over := func(n int64, rate float64) float64 {
		if rate <= 0 {
			return 0
		}
		return float64(n) / rate
	}
	memory := over(c.Bytes, m.ReadBytes)
	arithmetic := over(c.Int8Ops, m.Int8Ops) + over(c.Float32Ops, m.Float32Ops)
	return time.Duration(math.Round(1e9 * max(memory, arithmetic))), memory >= arithmetic
}
