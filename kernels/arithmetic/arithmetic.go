// Package arithmetic multiplies and adds in registers and does nothing else: the yardstick for
// operators that are bound by arithmetic, as those of a long prompt are. Package bandwidth is the
// one for those that wait for memory.
package arithmetic

import (
	"slices"
	"time"

	"headroom/kernels/cpu"
)

// Int8 is the operations per second, a multiply-add counting as two, at which c's threads add up
// products of 4-bit codes with 8-bit integers: the median of short passes for so long.
func Int8(c *cpu.Context, during time.Duration) float64 { return rate(c, int8s, during) }

// Float32 is the same for fused multiply-adds of float32.
func Float32(c *cpu.Context, during time.Duration) float64 { return rate(c, float32s, during) }

// kind is what is multiplied.
type kind int

const (
	int8s    kind = iota // unsigned 4-bit codes times signed bytes, added up in 32 bits
	float32s             // fused multiply-adds
)

// rounds of a block: on sets without a 32-bit dot product, as many sums of products fit 16 bits.
const rounds = 8

// width is what an instruction set multiplies in a round: the numbers of loop.c.
type width struct {
	bytes  int // of a vector of codes
	ints   int // accumulators of such vectors
	floats int // accumulators of sixteen floats
}

func widthOf(isa cpu.ISA) width {
	switch isa {
	case cpu.AVX2:
		return width{32, 6, 6}
	case cpu.AVX512, cpu.AVX512VNNI, cpu.AMX: // the matrix unit can be faster than this
		return width{64, 12, 12}
	case cpu.NEON:
		return width{16, 16, 5}
	}
	return width{64, 1, 1} // plain Go
}

// loop is blocks of products on all threads. A round multiplies the same operands once for each
// accumulator, and there are enough of those that no product waits for the one before.
type loop struct {
	kind   kind
	codes  [64]byte
	bytes  [64]int8
	x, y   [16]float32
	zeros  [12 * 16]float32 // that accumulators begin with
	blocks int              // of one unit of work

	// The sum of a unit, by worker; units are all alike.
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

// operations of one unit.
func (l *loop) operations(isa cpu.ISA) int {
	w := widthOf(isa)
	products := w.bytes * w.ints
	if l.kind == float32s {
		products = len(l.x) * w.floats
	}
	return 2 * products * l.blocks * rounds
}

// rate runs passes of a few milliseconds.
func rate(c *cpu.Context, k kind, during time.Duration) (perSecond float64) {
	const unitOperations = 10e6 // some 50 µs
	l := newLoop(k, c.Threads, 1)
	l.blocks = unitOperations / l.operations(c.ISA)
	units := c.Threads
	var passes []float64
	for end := time.Now().Add(during); len(passes) == 0 || time.Now().Before(end); {
		start := time.Now()
		c.Parallel(l, 0, units, 1)
		if took := time.Since(start); took >= 2*time.Millisecond {
			passes = append(passes, float64(l.operations(c.ISA))*float64(units)/took.Seconds())
		} else {
			units *= 2 // waking the threads is to be none of it
		}
	}
	slices.Sort(passes)
	return passes[len(passes)/2]
}
