package ceiling

import (
	"slices"
	"time"

	"headroom/kernels/cpu"
)

// Int8Ops measures how many operations per second c's threads do when they multiply 4-bit codes by
// 8-bit integers and add up the products. A multiply-add counts as two operations. The rate is the
// median of short passes over the duration. AMX may exceed it, because the loop has no code for it.
func Int8Ops(c *cpu.Context, duration time.Duration) float64 {
	return measure(c, int8s, duration)
}

// Float32Ops is Int8Ops for fused multiply-adds of float32.
func Float32Ops(c *cpu.Context, duration time.Duration) float64 {
	return measure(c, float32s, duration)
}

// kind is the type of the operands.
type kind int

const (
	int8s    kind = iota // unsigned 4-bit codes times signed bytes, summed in 32 bits
	float32s             // fused multiply-adds
)

// rounds is the number of rounds in a block. Instruction sets without a 32-bit dot product can add
// up the products of this many rounds in 16 bits.
const rounds = 8

// width is how much an instruction set multiplies in a round. arithmetic.c has the same numbers.
type width struct {
	bytes  int // of a vector of codes
	ints   int // accumulators of such vectors
	floats int // accumulators of sixteen floats
}

func widthOf(isa cpu.ISA) width {
	switch isa {
	case cpu.AVX2:
		return width{32, 6, 6}
	case cpu.AVX512, cpu.AVX512VNNI, cpu.AMX:
		return width{64, 12, 12}
	case cpu.NEON:
		return width{16, 16, 5}
	}
	return width{64, 1, 1} // plain Go
}

// loop is a task that multiplies the same operands over and over. A round multiplies them once for
// each accumulator. There are enough accumulators that no addition waits for the previous one.
type loop struct {
	kind   kind
	codes  [64]byte
	bytes  [64]int8
	x, y   [16]float32
	zeros  [12 * 16]float32 // initial value of the accumulators
	blocks int              // blocks of rounds in a unit of work

	// The sum of a unit, by worker. All units have the same sum.
	ints   []int32
	floats []float32
}

func newLoop(k kind, threads, blocks int) *loop {
	l := &loop{kind: k, blocks: blocks, ints: make([]int32, threads),
		floats: make([]float32, threads)}
	for i := range l.codes {
		l.codes[i], l.bytes[i] = byte(i*5%16), int8(i*37%255-127)
	}
	for i := range l.x {
		l.x[i], l.y[i] = float32(i%4), float32(i%3)-1
	}
	return l
}

// CPURange implements cpu.Task.
func (l *loop) CPURange(c *cpu.Context, _, worker, from, to int) {
	for range to - from {
		switch {
		case c.ISA != cpu.Generic:
			l.native(c.ISA, worker)
		case l.kind == int8s:
			l.ints[worker] = l.plainInts()
		default:
			l.floats[worker] = l.plainFloats()
		}
	}
}

func (l *loop) plainInts() (sum int32) {
	for range l.blocks * rounds {
		for i, code := range l.codes {
			sum += int32(code) * int32(l.bytes[i])
		}
	}
	return sum
}

func (l *loop) plainFloats() (sum float32) {
	for range l.blocks * rounds {
		for i, x := range l.x {
			sum += x * l.y[i]
		}
	}
	return sum
}

// operations returns the number of operations in a unit.
func (l *loop) operations(isa cpu.ISA) int {
	w := widthOf(isa)
	products := w.bytes * w.ints
	if l.kind == float32s {
		products = len(l.x) * w.floats
	}
	return 2 * products * l.blocks * rounds
}

// measure runs passes of a few milliseconds and returns their median rate in operations per second.
func measure(c *cpu.Context, k kind, duration time.Duration) float64 {
	const unitOperations = 10e6 // about 50 µs
	l := newLoop(k, c.Threads, 1)
	l.blocks = unitOperations / l.operations(c.ISA)
	units := c.Threads
	var passes []float64
	for end := time.Now().Add(duration); len(passes) == 0 || time.Now().Before(end); {
		start := time.Now()
		c.Parallel(l, 0, units, 1)
		if took := time.Since(start); took >= 2*time.Millisecond {
			passes = append(passes, float64(l.operations(c.ISA))*float64(units)/took.Seconds())
		} else {
			units *= 2 // too short: waking the threads would count
		}
	}
	slices.Sort(passes)
	return passes[len(passes)/2]
}
